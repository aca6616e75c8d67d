"""Messages to a client of the handshake era outside of any request: the answer to its GET. They are numbered,
so that a client whose connection was lost can say which it has seen."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING

from spindle.domain.json_schema import JsonObject
from spindle.mcp_server.event_ids import NOTICES, EventId, event, primer
from spindle.mcp_server.exchange import QUIET, SSE_HEADERS, Headers, until_gone

if TYPE_CHECKING:
    from starlette.types import Receive, Send

MAX_UNREAD = 1000
"""Messages that wait for a client with a stream. One that does not read loses the oldest."""
MAX_MISSED = 100
"""Messages that are kept for a client without a stream, of which the same is kept once; and of those that
were sent, for a client that did not get them."""

_SIGN_OF_LIFE = b": open\n\n"


class Notices:
    """The messages to one session."""

    def __init__(self, process: str) -> None:
        self._process = process
        self._count = 0
        self._sent: deque[tuple[int, JsonObject]] = deque(maxlen=MAX_MISSED)
        self._unsent: deque[tuple[int, JsonObject]] = deque()
        self._news = asyncio.Event()
        self._stream: object | None = None

    @property
    def is_open(self) -> bool:
        """True while the client has a stream."""
        return self._stream is not None

    def __len__(self) -> int:
        return len(self._unsent)

    def put(self, message: JsonObject) -> None:
        if not self.is_open:
            if "id" in message:
                return
            # Also a client that listens is without a stream at times: before its first, and when it is lost.
            kept = [item for item in self._unsent if item[1] != message]
            self._unsent = deque(kept)
        self._count += 1
        self._unsent.append((self._count, message))
        if len(self._unsent) > (MAX_UNREAD if self.is_open else MAX_MISSED):
            self._unsent.popleft()
        self._news.set()

    def rewind(self, last: EventId) -> bool:
        """Sends again what came after an event. Returns False if that cannot be known, as another process
        sent the event or it was too long ago."""
        kept = self._sent or self._unsent
        first = kept[0][0] if kept else self._count + 1
        if last.process != self._process or not first - 1 <= last.number <= self._count:
            return False
        while self._sent and self._sent[-1][0] > last.number:
            self._unsent.appendleft(self._sent.pop())
        return True

    def close(self) -> None:
        """Ends the stream, if there is one."""
        self._stream = None
        self._news.set()

    async def serve(self, receive: Receive, send: Send, headers: Headers, *, primes: bool) -> None:
        """Sends all there is, until the client goes, another stream begins or this one is closed. `primes`:
        the client understands an event that only says where the stream begins."""
        mine = self._stream = object()
        self._news.set()
        await send({"type": "http.response.start", "status": 200, "headers": [*SSE_HEADERS, *headers]})
        # Some clients wait for the first byte before they go on.
        before = self._unsent[0][0] - 1 if self._unsent else self._count
        begin = primer(EventId(self._process, NOTICES, before)) if primes else _SIGN_OF_LIFE
        await send({"type": "http.response.body", "body": begin, "more_body": True})
        leaving = asyncio.create_task(until_gone(receive))
        try:
            while self._stream is mine and not leaving.done():
                if self._unsent:
                    await send({"type": "http.response.body", "body": self._next(), "more_body": True})
                elif not await self._wait(leaving):
                    await send({"type": "http.response.body", "body": _SIGN_OF_LIFE, "more_body": True})
        finally:
            leaving.cancel()
            if self._stream is mine:
                self._stream = None
        with contextlib.suppress(OSError):
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _next(self) -> bytes:
        number, message = item = self._unsent.popleft()
        self._sent.append(item)
        return event(message, EventId(self._process, NOTICES, number))

    async def _wait(self, leaving: asyncio.Task[None]) -> bool:
        """Waits for news, and returns False if there were none for long."""
        self._news.clear()
        waiting = asyncio.create_task(self._news.wait())
        try:
            done, _ = await asyncio.wait(
                {leaving, waiting}, timeout=QUIET, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            waiting.cancel()
        return bool(done)
