"""Kinds of sources: one file or small package each, known to `spindle.plugins` by one line."""
