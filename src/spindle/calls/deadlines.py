"""The time limit of an attempt. Like `asyncio.timeout`, at a fifth of its cost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from spindle.timers import Timer

if TYPE_CHECKING:
    from types import TracebackType

    from spindle.timers import Timers


class Deadline(Timer):
    """The time limit of what one task does inside of it. It ends that by cancelling the task, and leaves with
    a TimeoutError unless somebody else has cancelled it too."""

    __slots__ = ("_cancelling", "_own", "_task", "_timers", "expired")

    def __init__(self, timers: Timers, task: asyncio.Task[object], seconds: float) -> None:
        self._seconds = seconds
        self._timers: Timers | None = timers
        self._task = task
        self._cancelling = task.cancelling()
        self._own: asyncio.TimerHandle | None = None
        self.expired = False

    def __enter__(self) -> None:
        assert self._timers is not None, "a time limit is entered once"
        self._timers.start(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._timers is not None
        if self._own is None:
            self.stop()
        else:
            self._own.cancel()
        self._timers = None
        if self.expired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def reschedule(self, seconds: float | None) -> None:
        """Has it end so many seconds from now, or not at all. One that has ended, or was left, stays so."""
        if self.expired or self._timers is None:
            return
        if self._own is None:
            self.stop()
        else:
            self._own.cancel()
            self._own = None
        if seconds is not None:
            self._own = self._task.get_loop().call_later(seconds, self.ring)

    def ring(self) -> None:
        self.expired = True
        self._task.cancel()
