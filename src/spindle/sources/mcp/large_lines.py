"""Large lines of a server, read beside the event loop and taken in their order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from spindle.sources.mcp.messages import AT_ONCE, read_message
from spindle.threads import in_short_turn

if TYPE_CHECKING:
    from spindle.sources.mcp.link import MessageLink

Take = Callable[[bytes, "dict[str, Any] | None"], None]
"""Takes a line, and the message in it."""


class LargeLines:
    """Reads what is too large to be read between two calls. While it does, no more is read from the server,
    and all that came after it waits."""

    def __init__(self, link: MessageLink, take: Take, resume: Callable[[], None]) -> None:
        self._link = link
        self._take = take
        self._resume = resume
        self._waiting: deque[bytes | Callable[[], None]] = deque()
        self._reading: asyncio.Task[None] | None = None
        self.are_waiting = False
        """True while lines are read, or wait for that."""

    def after(self, act: Callable[[], None]) -> None:
        """Does something after all that waits, or now."""
        if self._reading is None:
            act()
        else:
            self._waiting.append(act)

    def add(self, line: bytes) -> None:
        """Has a line read after all that waits already."""
        self._waiting.append(line)
        if self._reading is None:
            self._link.pause_reading()
            self.are_waiting = True
            self._reading = asyncio.create_task(self._read(), name="large lines of a server")

    def stop(self) -> None:
        """Reads no more: nobody waits for it."""
        self._waiting.clear()
        if self._reading is not None:
            self._reading.cancel()

    async def _read(self) -> None:
        try:
            while self._waiting:
                item = self._waiting.popleft()
                if not isinstance(item, bytes):
                    item()
                elif len(item) > AT_ONCE:
                    self._take(item, await in_short_turn(read_message, item))
                else:
                    self._take(item, read_message(item))
        finally:
            self._reading, self.are_waiting = None, False
            self._resume()
