"""The program `spindle`: has a command done by `spindle up` where that runs, and otherwise does it.

Imports next to nothing: with a server, this is all that a command costs.
"""

from __future__ import annotations

import gc
import os
import sys

YOUNG = 50_000
"""Objects that are made before the collector looks at them. With the usual 700 it looks a hundred times at
what is loaded for a command, and finds nothing."""


def run() -> None:
    """The `spindle` program."""
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])
    if not os.environ.get("_SPINDLE_COMPLETE"):
        code = _warm(sys.argv[1:])
        if code is not None:
            sys.exit(code)
    from spindle.cli.main import run as run_here

    run_here()


def _warm(argv: list[str]) -> int | None:
    """The exit code of the command if a server did it; None if it is for us to do."""
    from spindle.up import client

    found = client.find(argv)
    if found is None:
        return None
    link = client.connected(found.root)
    if link is None:
        from spindle.up import auto

        link = auto.started(found)
    return client.served(found, link) if link is not None else None
