"""One POSTed request and its answer: a JSON body, or a stream of events from the moment on that there is
something to say before the answer."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from spindle.domain.json_schema import JsonObject, to_json
from spindle.listening.whole import sent_whole
from spindle.mcp_protocol.errors import NoWayBackError
from spindle.mcp_protocol.names import RATE_LIMITED
from spindle.timers import Timer

if TYPE_CHECKING:
    from starlette.types import Receive, Send

    from spindle.mcp_server.channel import Send as Asking
    from spindle.mcp_server.kept_answers import KeptAnswer
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
    keep: Callable[[], KeptAnswer] | None = None
    """Begins to keep the answer, from the moment on that it is a stream, for a client that loses it."""
    kept: KeptAnswer | None = None

    def __init__(
        self, receive: Receive, send: Send, *, streams: bool, cancels: bool, headers: Headers = ()
    ) -> None:
        """`cancels`: whether a client that goes away takes its request with it."""
        super().__init__(WATCH_AFTER)
        self.receive = receive
        self.send = send
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
            self.stop()
            if self._watch is not None:
                await self.stop_watching()

    async def stop_watching(self) -> None:
        """Looks no longer whether the client still waits."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait({self._watch})

    async def event(self, message: JsonObject) -> None:
        """Send a message ahead of the answer, where the client takes a stream."""
        if not self._streams or (self.is_gone and self.kept is None):
            return
        await self._begin_stream()
        data = self.kept.add(message) if self.kept is not None else _event(message)
        if not self.is_gone:
            await self._body(data, more=True)

    async def ask(self, method: str, params: Mapping[str, Any] | None, send: Asking) -> JsonObject:
        """Asks the client ahead of the answer."""
        if self.kept is None and self.keep is not None:
            self.kept = self.keep()
        if self.kept is None:
            raise NoWayBackError(method)
        return await self.kept.ask(method, params, send)

    async def answer(self, message: JsonObject, status: int = 200) -> None:
        if self._started:
            if self.kept is not None:
                data = await self.kept.finish(message, is_lost=self.is_gone)
            else:
                data = _event(message)
            await self._body(data, more=False)
        elif "error" in message and message["error"]["code"] == RATE_LIMITED:
            wait = math.ceil(message["error"]["data"]["retryAfter"] or 1)
            headers = (*self.headers, (b"retry-after", str(wait).encode()))
            await respond(self.send, 429, message, headers)
        else:
            await respond(self.send, status, message, self.headers)

    async def _begin_stream(self) -> None:
        if not self._started:
            self._started = True
            if self.kept is None and self.keep is not None:
                self.kept = self.keep()
            self.ring()  # what is kept depends on it whether the client has heard the answer
            headers = [*SSE_HEADERS, *self.headers]
            await self.send({"type": "http.response.start", "status": 200, "headers": headers})

    async def _body(self, data: bytes, *, more: bool) -> None:
        await self.send({"type": "http.response.body", "body": data, "more_body": more})

    def ring(self) -> None:
        if self._watch is None:
            self._watch = asyncio.create_task(self._watch_client())

    async def _watch_client(self) -> None:
        leaving = asyncio.create_task(until_gone(self.receive))
        try:
            while not (await asyncio.wait({leaving}, timeout=QUIET))[0]:
                if self._streams:
                    is_first = not self._started
                    await self._begin_stream()
                    primer = self.kept.primer if self.kept is not None and is_first else b""
                    await self._body(primer or b": still at work\n\n", more=True)
        finally:
            leaving.cancel()
        self.is_gone = True
        if self._cancels:
            self._task.cancel()


def _event(message: JsonObject) -> bytes:
    return b"event: message\ndata: " + to_json(message) + b"\n\n"


async def respond(send: Send, status: int, message: JsonObject | None = None, headers: Headers = ()) -> None:
    """Sends a whole response."""
    body = to_json(message) if message is not None else b""
    if message is not None and sent_whole(send, status, head_of(headers), body):
        return
    kind = (JSON_TYPE,) if message is not None else ()
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*kind, length, *headers]})
    await send({"type": "http.response.body", "body": body})


@lru_cache(1000)
def head_of(headers: Headers) -> bytes:
    """The lines of a response's head: of the few of a session, which come with each of its answers."""
    return b"".join(b"%b: %b\r\n" % pair for pair in (JSON_TYPE, *headers))


async def until_gone(receive: Receive) -> None:
    """Returns when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
