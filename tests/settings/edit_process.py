"""Adds sources to a file. edit_process.py FILE NAME COUNT, once the line `go` arrives."""

from __future__ import annotations

import sys
from pathlib import Path

from spindle.settings.edit import add_source

file, name, count = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(count)):
    add_source(Path(file), f"{name}{number}", {"command": ["run", str(number)]})
