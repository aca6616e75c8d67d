"""Engines: who executes submitted runs, and when."""
