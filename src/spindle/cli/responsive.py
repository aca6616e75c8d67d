"""Keeps the event loop of a long-lived process from waiting for computing threads and for the collector."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from typing import Any

from spindle.threads import be_considerate

SWITCH_INTERVAL = 0.0001
"""Seconds after which a thread that computes hands over. One call takes a dozen such turns, and each of
them is noticed if it takes the usual 5 ms."""
YOUNG = 10_000
"""Objects that are made before the collector looks at them. Nearly all that a call makes are gone at its
end, and with the usual 700 it looks during each call."""
LONG_COLLECTION = 0.01
MAX_FREEZES = 8


def responsive_loop() -> Callable[[], Any] | None:
    """Sets this process up for its event loop, and returns the maker of a fast one, if there is any."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])
    gc.callbacks.append(_LongCollections())
    be_considerate()
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


class _LongCollections:
    """Takes what survives a long full collection out of the collector's sight, a few times.

    That is what stays for good: modules, models, the settings. Looking through it again takes 80 ms, twice a
    second in a busy server, in which nobody is answered. References are counted for it as before.
    """

    def __init__(self) -> None:
        self._began = 0.0
        self._freezes = 0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began = time.perf_counter()
        elif (
            info["generation"] == 2
            and time.perf_counter() - self._began > LONG_COLLECTION
            and (self._freezes < MAX_FREEZES or not gc.get_freeze_count())
        ):
            self._freezes += 1
            gc.freeze()
