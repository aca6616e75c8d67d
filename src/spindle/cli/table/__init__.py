"""The `spindle table` commands."""
