"""Agents: a language model that picks tools of the catalog until it can answer."""
