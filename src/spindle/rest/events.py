"""Answers a call with server-sent events: its progress, and at the end its result or error."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING

from spindle.domain.json_schema import JsonObject, to_json
from spindle.listening.response import Response
from spindle.rest.forms import EVENTS, whole
from spindle.rest.paused import StoredCall
from spindle.serving.problems import of_error, of_result, respond

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from spindle.domain.call import Result

# A comment after so many seconds of silence, so that nothing on the way takes the connection for dead.
HEARTBEAT = 15.0
# Of those that a slow reader has not taken yet, the newest are kept.
KEPT_EVENTS = 256


class Steps:
    """Passes the progress of a call from the source to the reader."""

    def __init__(self) -> None:
        self.waiting: deque[JsonObject] = deque(maxlen=KEPT_EVENTS)
        self._news = asyncio.Event()

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        self.waiting.append({"progress": progress, "total": total, "message": message})
        self._news.set()

    def wake(self, _: object = None) -> None:
        self._news.set()

    async def news(self) -> None:
        """Waits until there is an event to send, or a keep-alive is due."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HEARTBEAT):
                await self._news.wait()
        self._news.clear()

    def taken(self) -> bytes:
        written = b"".join(_event("progress", step) for step in self.waiting)
        self.waiting.clear()
        return written


class ResultStream(Response):
    """Sends what a running call brings. Nothing is sent before the first event, so that a call that
    fails at once is answered with its status."""

    def __init__(self, tool: str, call: asyncio.Task[Result], steps: Steps) -> None:
        super().__init__(media_type=EVENTS, headers={"Cache-Control": "no-store"})
        self._tool = tool
        self._call = call
        self._steps = steps
        call.add_done_callback(steps.wake)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._steps.news()
        if self._call.done() and not self._steps.waiting:
            if isinstance(paused := self._call.exception(), StoredCall):
                await paused.response()(scope, receive, send)
                return
            name, body = await self._end()
            if name == "error":
                await respond(body)(scope, receive, send)
                return
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        while not self._call.done():
            await self._send(send, self._steps.taken() or b":\n\n")
            await self._steps.news()
        await self._send(send, self._steps.taken() + _event(*await self._end()), more=False)

    async def _end(self) -> tuple[str, JsonObject]:
        error = self._call.exception()
        if isinstance(error, StoredCall):
            return "paused", error.body
        if error is not None:
            return "error", of_error(error)
        result = self._call.result()
        if result.is_error:
            return "error", of_result(self._tool, result)
        return "result", await whole(result)

    @staticmethod
    async def _send(send: Send, data: bytes, *, more: bool = True) -> None:
        await send({"type": "http.response.body", "body": data, "more_body": more})


def _event(name: str, body: JsonObject) -> bytes:
    # JSON has no bare line breaks, so one line of data is enough.
    return b"event: " + name.encode() + b"\ndata: " + to_json(body, default=str) + b"\n\n"
