"""The `spindle auth` commands."""
