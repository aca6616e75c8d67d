"""Runs the command `spindle`: `python -m spindle`."""

from spindle.cli.main import run

run()
