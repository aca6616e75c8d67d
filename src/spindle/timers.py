"""Timers that are set for every call and nearly never ring. An event loop makes each of its own anew, which
takes a tenth of a call's time; here all of one length, which ring in the order in which they were set, share
one of the loop's."""

from __future__ import annotations

import asyncio
import time

MAX_UNUSED = 32
"""Lengths whose timer of the loop is kept while no timer is set."""
PRECISION = 0.001
"""Seconds: event loops know the time no better."""


class Timer:
    """Something that happens at a time, unless it is stopped before."""

    __slots__ = ("_seconds", "_when")

    _when: float

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def ring(self) -> None:
        """Does what it was set for."""
        raise NotImplementedError


class _Line:
    """The timers of one length, the first to ring first."""

    __slots__ = ("handle", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[Timer, None] = {}
        self.handle: asyncio.TimerHandle | None = None


class Timers:
    """The timers of one event loop."""

    def __init__(self) -> None:
        self._lines: dict[float, _Line] = {}

    def __len__(self) -> int:
        return len(self._lines)

    def start(self, timer: Timer) -> None:
        """Sets a timer that is not set."""
        seconds = timer._seconds  # pyright: ignore[reportPrivateUsage]
        timer._when = time.monotonic() + seconds  # pyright: ignore[reportPrivateUsage]
        line = self._lines.get(seconds)
        if line is None:
            line = self._lines[seconds] = _Line()
        line.waiting[timer] = None
        if line.handle is None:
            line.handle = asyncio.get_running_loop().call_later(seconds, self._ring, seconds)

    def stop(self, timer: Timer) -> None:
        """Stops a timer, if it is set."""
        seconds = timer._seconds  # pyright: ignore[reportPrivateUsage]
        line = self._lines.get(seconds)
        if line is None:
            return
        line.waiting.pop(timer, None)
        # The loop's timer stays for the next of this length; but lengths that are seldom add up.
        if not line.waiting and len(self._lines) > MAX_UNUSED and line.handle is not None:
            line.handle.cancel()
            del self._lines[seconds]

    def _ring(self, seconds: float) -> None:
        line = self._lines[seconds]
        now = time.monotonic()
        while line.waiting:
            first = next(iter(line.waiting))
            left = first._when - now  # pyright: ignore[reportPrivateUsage]
            if left > PRECISION:
                line.handle = asyncio.get_running_loop().call_later(left, self._ring, seconds)
                return
            del line.waiting[first]
            first.ring()
        del self._lines[seconds]
