"""The tools that can be called: sources, their sessions, and all their tools under unique names."""
