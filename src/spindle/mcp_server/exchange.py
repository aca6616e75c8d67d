"""One POSTed request and its answer: a JSON body, or a stream of events from the moment on that there is
something to say before the answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from spindle.domain.json_schema import JsonObject, to_json
from spindle.listening.whole import sent_whole
from spindle.timers import Timer

if TYPE_CHECKING:
    from starlette.types import Receive, Send

    from spindle.timers import Timers

WATCH_AFTER = 0.25
"""Seconds after which we begin to look whether the client still waits. Most calls are over by then."""
QUIET = 10.0
"""Seconds of silence after which a sign of life is sent, so that no proxy in between gives up."""

JSON_TYPE = (b"content-type", b"application/json")
SSE_HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
Headers = tuple[tuple[bytes, bytes], ...]


class PostExchange(Timer):
    """One request and its answer. It is the timer after which the client is watched too."""

    _started = False
    _watch: asyncio.Task[None] | None = None
    is_gone = False
    """True if the client went away."""

    def __init__(
        self, receive: Receive, send: Send, *, streams: bool, cancels: bool, headers: Headers = ()
    ) -> None:
        """`cancels`: whether a client that goes away takes its request with it."""
        super().__init__(WATCH_AFTER)
        self._receive = receive
        self._send = send
        self._streams = streams
        self._cancels = cancels
        self.headers = headers

    async def run(
        self, timers: Timers, task: asyncio.Task[Any], work: Awaitable[JsonObject]
    ) -> JsonObject | None:
        """Does the work of a request in its task; None where the client went away meanwhile."""
        self._task = task
        timers.start(self)
        try:
            return await work
        except asyncio.CancelledError:
            if not self.is_gone:
                raise
            task.uncancel()
            return None
        finally:
            timers.stop(self)
            if self._watch is not None:
                self._watch.cancel()
                await asyncio.wait({self._watch})

    async def event(self, message: JsonObject) -> None:
        """Send a message ahead of the answer, where the client takes a stream."""
        if not self._streams or self.is_gone:
            return
        await self._begin_stream()
        await self._body(_event(message), more=True)

    async def answer(self, message: JsonObject, status: int = 200) -> None:
        if self._started:
            await self._body(_event(message), more=False)
        else:
            await respond(self._send, status, message, self.headers)

    async def _begin_stream(self) -> None:
        if not self._started:
            self._started = True
            headers = [*SSE_HEADERS, *self.headers]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def _body(self, data: bytes, *, more: bool) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": more})

    def ring(self) -> None:
        self._watch = asyncio.create_task(self._watch_client())

    async def _watch_client(self) -> None:
        leaving = asyncio.create_task(self._disconnected())
        try:
            while not (await asyncio.wait({leaving}, timeout=QUIET))[0]:
                if self._streams:
                    await self._begin_stream()
                    await self._body(b": still at work\n\n", more=True)
        finally:
            leaving.cancel()
        self.is_gone = True
        if self._cancels:
            self._task.cancel()

    async def _disconnected(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


def _event(message: JsonObject) -> bytes:
    return b"event: message\ndata: " + to_json(message) + b"\n\n"


async def respond(send: Send, status: int, message: JsonObject | None = None, headers: Headers = ()) -> None:
    """Sends a whole response."""
    body = to_json(message) if message is not None else b""
    if message is not None and sent_whole(send, status, _head_of(headers), body):
        return
    kind = (JSON_TYPE,) if message is not None else ()
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*kind, length, *headers]})
    await send({"type": "http.response.body", "body": body})


@lru_cache(1000)
def _head_of(headers: Headers) -> bytes:
    """The lines of a response's head: of the few of a session, which come with each of its answers."""
    return b"".join(b"%b: %b\r\n" % pair for pair in (JSON_TYPE, *headers))


class NoticeStream:
    """The messages to a client outside of any request: the answer to its GET. Limited: a client that does
    not read loses the oldest."""

    def __init__(self, limit: int = 1000) -> None:
        self._limit = limit
        self._queue: asyncio.Queue[JsonObject] = asyncio.Queue(limit)
        self._closed = asyncio.Event()

    def put(self, message: JsonObject) -> None:
        if self._queue.full():
            self._queue.get_nowait()
        self._queue.put_nowait(message)

    def close(self) -> None:
        self._closed.set()

    async def serve(self, receive: Receive, send: Send, headers: Headers) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [*SSE_HEADERS, *headers]})
        # Some clients wait for the first byte before they go on.
        await send({"type": "http.response.body", "body": b": open\n\n", "more_body": True})
        leaving = asyncio.create_task(_until_gone(receive))
        closing = asyncio.create_task(self._closed.wait())
        try:
            while not (leaving.done() or closing.done()):
                getting = asyncio.create_task(self._queue.get())
                await asyncio.wait(
                    {leaving, closing, getting}, timeout=QUIET, return_when=asyncio.FIRST_COMPLETED
                )
                body = _event(getting.result()) if getting.done() else b": open\n\n"
                getting.cancel()
                if not leaving.done():
                    await send({"type": "http.response.body", "body": body, "more_body": True})
        finally:
            leaving.cancel()
            closing.cancel()
        with contextlib.suppress(OSError):
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
