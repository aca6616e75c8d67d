"""Flows as text: JSON, YAML and one-line pipes, read into definitions and written again."""
