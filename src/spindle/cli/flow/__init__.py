"""The `spindle flow` commands."""
