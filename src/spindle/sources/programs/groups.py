"""Groups of the processes that we start: each program leads one, and is ended with all that it started."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal

_live: set[int] = set()


@atexit.register
def _end_survivors() -> None:
    """The last resort, for a program of ours that ends without putting its affairs in order."""
    for leader in _live:
        signal_group(leader, signal.SIGKILL)


def started(leader: int) -> None:
    """Notes a group, so that it ends with this process at the latest."""
    _live.add(leader)


def end_group(leader: int) -> None:
    """Ends everything in the group, but only once: its number may later belong to another."""
    if leader in _live:
        signal_group(leader, signal.SIGKILL)
        _live.discard(leader)


def signal_group(leader: int, number: int) -> None:
    """Sends a signal to a group that may be gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)
