"""Processes that a program started and that left its group, as daemons do.

A group can be left (`setsid`), and a parent can die. Those that still descend from the program are found by
their parents, and those that were handed on to another parent by a mark in the environment they were
started with. One that has shed both is not found. Only where there is a `/proc`; elsewhere none is.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from spindle.domain.call import new_id

MARK = "SPINDLE_STARTED"
"""The variable that holds the marks of all programs of ours below which a process was started."""
_PROC = Path("/proc")
# A process may start another while we look. Each round ends all that were there when it began.
_ROUNDS = 20


class Process(NamedTuple):
    """A process by its number and its start. The number alone is given again to others."""

    pid: int
    started: int


def marked(env: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """Returns the environment for a program, and the mark in it. A mark that we carry ourselves is handed
    on."""
    mark = new_id()
    return {**env, MARK: f"{os.environ.get(MARK, '')} {mark}".strip()}, mark


def identify(pid: int) -> Process | None:
    """Returns the process of a number. Asked at once, while the number cannot be another's."""
    found = _look(pid)
    return found[0] if found else None


def descendants(leader: Process | None, mark: str) -> set[Process]:
    """Returns the living processes of all that the program started, itself included."""
    looked = [found for found in map(_look, _entries()) if found is not None]
    # What is older than the program does not come from it, and is not looked into.
    first = leader.started if leader else 0
    parents = {process: parent for process, parent in looked if process.started >= first}
    below = {leader.pid} if leader is not None and leader in parents else set[int]()
    count = -1
    while count != len(below):
        count = len(below)
        below |= {process.pid for process, parent in parents.items() if parent in below}
    own = os.getpid()
    return {
        process
        for process in parents
        if process.pid != own and (process.pid in below or _carries(process.pid, mark))
    }


def end(known: Iterable[Process], leader: Process | None, mark: str) -> None:
    """Ends those that are known, and whatever else is found, until nothing more is."""
    waiting = set(known)
    ended: set[Process] = set()
    for _ in range(_ROUNDS):
        waiting |= descendants(leader, mark)
        waiting -= ended
        if not waiting:
            return
        for process in waiting:
            _kill(process)
        ended |= waiting


def _kill(process: Process) -> None:
    # A descriptor of a process stays with that process, so what was checked is what is ended.
    with contextlib.suppress(OSError):
        descriptor = os.pidfd_open(process.pid)
        try:
            found = _look(process.pid)
            if found is not None and found[0] == process:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)


def _entries() -> list[int]:
    try:
        return [int(name) for name in os.listdir(_PROC) if name.isdecimal()]
    except OSError:
        return []


def _look(pid: int) -> tuple[Process, int] | None:
    """The process and the number of its parent."""
    try:
        text = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # The program's name, in parentheses, may hold anything.
    fields = text[text.rfind(b")") + 2 :].split()
    return Process(pid, int(fields[19])), int(fields[1])


def _carries(pid: int, mark: str) -> bool:
    try:
        environment = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return False  # somebody else's, or it has just ended
    return mark.encode() in environment
