"""Runs the command line and counts, by part of Spindle, where its CPU goes.

`sampled.py FILE COMMAND...`: every millisecond of CPU the innermost frame of ours is noted; what libraries do
counts for whoever called them. The counts are written to FILE on SIGUSR1, and begin anew.
"""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

EVERY = 0.001
PARTS = {
    "record: masks, sealing, writing": (
        "calls/record", "calls/running", "calls/unsaved", "auth/details", "stores/",
    ),
    "run: journal, place, lease": ("runs/", "calls/journal", "calls/host"),
    "guards: permission, validation, limits, breaker, credential, time limit": (
        "calls/", "schemas/", "auth/", "timers", "telemetry/", "domain/",
    ),
    "lookup of the tool and its session": ("catalog/",),
    "the source's session and pipe": ("sources/", "http/"),
    "MCP: requests, sessions, answers": ("mcp_server/", "mcp_protocol/"),
    "access: Host, Origin, token, quota, audit": ("serving/",),
    "HTTP": ("listening/",),
}  # fmt: skip
LOOP = "the event loop itself"

target: Path
counts: Counter[str] = Counter()
known: dict[str, str | None] = {}


def part_of(file: str) -> str | None:
    """The part that a file belongs to; None if it is not one of Spindle's."""
    inner = file.rpartition("/spindle/")[2]
    if inner == file or inner.startswith("cli/"):
        return None  # the command line is below all that the event loop does
    for part, beginnings in PARTS.items():
        if inner.startswith(beginnings):
            return part
    return "all else of ours"


def sample(_signal: int, frame: FrameType | None) -> None:
    while frame is not None:
        file = frame.f_code.co_filename
        if file not in known:
            known[file] = part_of(file)
        part = known[file]
        if part is not None:
            counts[part] += 1
            return
        frame = frame.f_back
    counts[LOOP] += 1


def write(_signal: int, _frame: FrameType | None) -> None:
    whole = target.with_suffix(".new")
    whole.write_text(json.dumps(counts))
    whole.replace(target)
    counts.clear()


if __name__ == "__main__":
    from spindle.cli.main import run

    signal.signal(signal.SIGPROF, sample)
    signal.signal(signal.SIGUSR1, write)
    signal.setitimer(signal.ITIMER_PROF, EVERY, EVERY)
    target = Path(sys.argv[1])
    sys.argv[:] = ["spindle", *sys.argv[2:]]
    run()
