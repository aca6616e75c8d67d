"""Reads a program's `--help` to draft the settings of a `cli` source."""
