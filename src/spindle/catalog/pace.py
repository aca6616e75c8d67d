"""The pace at which a source is listened to, however often it speaks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

SHORTEST = 0.5
LONGEST = 60.0


class Pace:
    """Spaces out something that is asked for again and again. The first time is at once; each further one
    waits twice as long as the one before, up to `longest` seconds; after a quiet time it begins anew."""

    def __init__(self, longest: float = LONGEST, now: Callable[[], float] = time.monotonic) -> None:
        self._longest = longest
        self._now = now
        self._gap = 0.0
        self._last = float("-inf")

    def wait(self) -> float:
        """Returns the seconds until the next time may be."""
        return max(0.0, self._last + self._gap - self._now())

    def happened(self) -> None:
        """Takes note that it has just happened."""
        now = self._now()
        is_quiet = now - self._last > 2 * self._gap
        self._gap = SHORTEST if is_quiet else min(2 * self._gap, self._longest)
        self._last = now


class Refreshes:
    """Has sources asked again that say that their tools changed: one refresh at a time for each, at a `Pace`.
    Whatever is said while one waits or runs causes one more, so that the last change is never missed."""

    def __init__(self, refresh: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        self._refresh = refresh
        self._paces: dict[str, Pace] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._again: set[str] = set()
        self._stopped = False
        self.tasks: dict[str, asyncio.Task[None]] = {}
        """By source, the refresh that runs."""

    def want(self, name: str) -> None:
        """Has a source refreshed, now or as soon as its pace allows."""
        if self._stopped:
            return
        if name in self.tasks:
            self._again.add(name)
        elif name not in self._timers:
            wait = self._paces.setdefault(name, Pace()).wait()
            if wait > 0:
                later = asyncio.get_running_loop().call_later(wait, self._start, name)
                self._timers[name] = later
            else:
                self._start(name)

    def want_now(self, name: str) -> None:
        """Has a source refreshed without waiting: its settings are others."""
        self.forget(name)
        self.want(name)

    def forget(self, name: str) -> None:
        """Forgets that a source is to be refreshed, and its pace."""
        self._again.discard(name)
        self._paces.pop(name, None)
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def stop(self) -> list[asyncio.Task[None]]:
        """Starts no more refreshes, and returns those that run."""
        self._stopped = True
        for name in [*self._timers, *self._again]:
            self.forget(name)
        return list(self.tasks.values())

    def _start(self, name: str) -> None:
        self._timers.pop(name, None)
        self._again.discard(name)
        task = self.tasks[name] = asyncio.create_task(self._refresh(name), name=f"refresh of {name}")
        task.add_done_callback(lambda _task: self._ended(name))

    def _ended(self, name: str) -> None:
        del self.tasks[name]
        if (pace := self._paces.get(name)) is not None:
            pace.happened()
        if name in self._again:
            self._again.discard(name)
            self.want(name)
