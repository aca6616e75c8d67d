"""Streams that have brought their answer, and end soon: then others can use their connections."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spindle.http.answer import HttpAnswer

LAST_BYTES = 1.0
"""Seconds for the end of a stream that has brought its answer."""
MAX_ENDINGS = 64


class Endings:
    """Lets streams come to their end, without a task for each: their connections are free by themselves then.
    Ends those that take long."""

    def __init__(self) -> None:
        self._open: deque[tuple[float, HttpAnswer]] = deque()
        self._looking: asyncio.TimerHandle | None = None

    def add(self, answer: HttpAnswer) -> None:
        """Takes a stream that nobody reads any more."""
        if len(self._open) >= MAX_ENDINGS:
            self._open = deque(item for item in self._open if not item[1].is_complete)
        if len(self._open) >= MAX_ENDINGS:
            answer.release()
            return
        answer.leave()
        loop = asyncio.get_running_loop()
        self._open.append((loop.time() + LAST_BYTES, answer))
        if self._looking is None:
            self._looking = loop.call_later(LAST_BYTES, self._look)

    def close(self) -> None:
        """Ends all of them."""
        if self._looking is not None:
            self._looking.cancel()
        while self._open:
            self._open.popleft()[1].release()

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self._looking, now = None, loop.time()
        while self._open:
            until, answer = self._open[0]
            if until > now and not answer.is_complete:
                self._looking = loop.call_at(until, self._look)
                return
            self._open.popleft()
            answer.release()
