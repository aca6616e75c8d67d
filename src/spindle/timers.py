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

    __slots__ = ("_line", "_seconds", "_when")

    _line: dict[Timer, None]
    _when: float

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def stop(self) -> None:
        """Has it not ring. It must have been set once."""
        self._line.pop(self, None)

    def ring(self) -> None:
        """Does what it was set for."""
        raise NotImplementedError


class _Line:
    """The timers of one length that are set, the first to ring first, and the loop's for them."""

    __slots__ = ("handle", "waiting")

    def __init__(self, handle: asyncio.TimerHandle) -> None:
        self.handle = handle
        self.waiting: dict[Timer, None] = {}


class Timers:
    """The timers of one event loop."""

    def __init__(self) -> None:
        self._lines: dict[float, _Line] = {}
        self._most = MAX_UNUSED

    def __len__(self) -> int:
        return len(self._lines)

    def start(self, timer: Timer) -> None:
        """Sets a timer that is not set."""
        seconds = timer._seconds  # pyright: ignore[reportPrivateUsage]
        line = self._lines.get(seconds)
        if line is None:
            line = self._new_line(seconds)
        timer._line = waiting = line.waiting  # pyright: ignore[reportPrivateUsage]
        timer._when = time.monotonic() + seconds  # pyright: ignore[reportPrivateUsage]
        waiting[timer] = None

    def _new_line(self, seconds: float) -> _Line:
        if len(self._lines) >= self._most:
            # The loop's timer stays for the next of its length; but lengths that are seldom add up.
            for length, line in list(self._lines.items()):
                if not line.waiting:
                    line.handle.cancel()
                    del self._lines[length]
            self._most = max(MAX_UNUSED, 2 * len(self._lines))
        handle = asyncio.get_running_loop().call_later(seconds, self._ring, seconds)
        line = self._lines[seconds] = _Line(handle)
        return line

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
