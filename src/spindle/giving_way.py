"""Lets a thread that computes beside an event loop give way while the loop is busy.

Python runs one thread at a time. One that computes without a pause takes half of the time from the event
loop of a busy server, and every call then takes more than twice as long. Work on what came from outside may
take long, but not from others: it has a fifth of the time while anybody else wants it, and all of it
otherwise.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Generator

COMPUTES = 0.002
"""Seconds of computing after which the thread looks whether others wait."""
RESTS = 0.008
"""Seconds that it then leaves to them."""
HELD_UP = 1.3
"""Times longer that the work took than it computed, if others had their turns meanwhile."""


class _Work(threading.local):
    """The work of this thread."""

    is_considerate = False
    until = 0.0
    began = 0.0
    computed = 0.0

    def begin(self) -> None:
        self.began, self.computed = time.perf_counter(), time.thread_time()
        self.until = self.began + COMPUTES


_work = _Work()


@contextlib.contextmanager
def considerate() -> Generator[None]:
    """Has the work of this thread rest wherever it calls `give_way`, if others want to compute."""
    _work.is_considerate = True
    _work.begin()
    try:
        yield
    finally:
        _work.is_considerate = False


def give_way() -> None:
    """Rests if this thread has computed for a while and others wait. To be called in every loop whose length
    somebody else decides; where nobody asked this thread to be `considerate` it does nothing."""
    work = _work
    if not work.is_considerate:
        return
    now = time.perf_counter()
    if now < work.until:
        return
    if now - work.began > HELD_UP * (time.thread_time() - work.computed):
        time.sleep(RESTS)
    work.begin()
