"""Runs the command `spindle`: `python -m spindle`."""

from spindle.cli.entry import run

run()
