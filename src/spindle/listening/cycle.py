"""One request and its answer, as an ASGI application takes and gives them."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Scope

    from spindle.listening.flow import FlowControl
    from spindle.listening.state import ServerState
    from spindle.listening.writer import AnswerWriter

logger = logging.getLogger("spindle.serve")

_NO_NAME = re.compile(rb"[^!#$%&'*+.^_`|~0-9A-Za-z-]|^$")
_NO_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_WITHOUT_BODY = (204, 304)


@cache
def status_line(status: int) -> bytes:
    """The first line of an answer."""
    phrase = HTTPStatus(status).phrase if status in HTTPStatus.__members__.values() else ""
    return b"HTTP/1.1 %d %b\r\n" % (status, phrase.encode())


class RequestCycle:
    """Holds the part of a request that came, and knows how much of its answer was sent."""

    def __init__(
        self,
        scope: Scope,
        writer: AnswerWriter,
        flow: FlowControl,
        state: ServerState,
        on_response: Callable[[], None],
        *,
        keep_alive: bool,
        waits_to_continue: bool = False,
    ) -> None:
        """`waits_to_continue`: the client sends the body when it is told to."""
        self.scope = scope
        self.writer = writer
        self.flow = flow
        self.state = state
        self.on_response = on_response
        self.keep_alive = keep_alive
        self.waits_to_continue = waits_to_continue
        self.disconnected = False
        self.body = bytearray()
        """The part of the body that came and was not taken."""
        self.more_body = True
        self.message_event = asyncio.Event()
        """Set when there is something to receive."""
        self.response_started = False
        self.response_complete = False
        self._in_chunks = False
        self._owed = 0
        """Bytes of the announced length that were not sent yet."""

    async def run(self, app: ASGIApp) -> None:
        """Has the application answer. A client never waits for an answer that does not come."""
        try:
            await app(self.scope, self.receive, self.send)
        except BaseException as error:
            if not isinstance(error, asyncio.CancelledError):
                logger.error("a request failed", exc_info=error)
        else:
            if not self.response_complete and not self.disconnected:
                logger.error("a request was not answered: %s", self.scope["path"])
        if not self.response_started:
            await self._apologise()
        elif not self.response_complete:
            self.writer.close()  # so that the client does not take a part for the whole
        self.on_response = _nothing

    async def _apologise(self) -> None:
        text = b"Internal Server Error"
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", b"%d" % len(text)),
            (b"connection", b"close"),
        ]
        await self.send({"type": "http.response.start", "status": 500, "headers": headers})
        await self.send({"type": "http.response.body", "body": text})

    # --- what the application is given

    async def receive(self) -> Message:
        """The next part of the body that came, or that nobody is there any more."""
        if self.waits_to_continue and not self.writer.is_closing():
            self.waits_to_continue = False
            self.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if not self.disconnected and not self.response_complete:
            self.flow.resume_reading()
            await self.message_event.wait()
            self.message_event.clear()
        if self.disconnected or self.response_complete:
            return {"type": "http.disconnect"}
        body, self.body = bytes(self.body), bytearray()
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    async def send(self, message: Message) -> None:
        """Sends the head of the answer, then part after part of its body."""
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        wanted = "http.response.body" if self.response_started else "http.response.start"
        if self.response_complete or message["type"] != wanted:
            at = "after the whole answer" if self.response_complete else f"in place of {wanted!r}"
            raise RuntimeError(f"{message['type']!r} was sent {at}")
        if self.response_started:
            self._send_body(message.get("body", b""), last=not message.get("more_body", False))
        else:
            self._send_head(message["status"], message.get("headers", ()))

    # --- the parts of an answer

    def _send_head(self, status: int, headers: Any) -> None:
        lines, length, closes = [status_line(status), self.state.usual_lines], None, False
        for name, value in headers:
            if _NO_NAME.search(name) or _NO_VALUE.search(value):
                raise RuntimeError(f"{name!r} cannot be sent as a header")
            known = name.lower()
            if known == b"content-length":
                length = int(value)
            elif known == b"connection" and b"close" in value.lower():
                closes, self.keep_alive = True, False
            lines.append(b"%b: %b\r\n" % (known, value))
        if not self.keep_alive and not closes:
            lines.append(b"connection: close\r\n")
        without_body = self.scope["method"] == "HEAD" or status in _WITHOUT_BODY
        if length is None and not without_body:
            self._in_chunks = True
            lines.append(b"transfer-encoding: chunked\r\n")
        self._owed = 0 if length is None or without_body else length
        lines.append(b"\r\n")
        if self.waits_to_continue and not self.keep_alive:
            self.more_body = False  # it was never asked for
        self.response_started, self.waits_to_continue = True, False
        self.writer.write(b"".join(lines))

    def _send_body(self, body: bytes, *, last: bool) -> None:
        if self._in_chunks:
            chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            self.writer.write(chunk + b"0\r\n\r\n" if last else chunk)
        elif self.scope["method"] != "HEAD":
            self._owed -= len(body)
            if self._owed < 0 or (last and self._owed):
                # The next answer on this connection would begin in the middle of something.
                raise RuntimeError("the body of the answer has another length than its head says")
            self.writer.write(body)
        if last:
            self.ended()

    def ended(self) -> None:
        """All of the answer was handed to the writer."""
        self.response_started = self.response_complete = True
        self.waits_to_continue = False
        self.message_event.set()
        if not self.keep_alive and not self.more_body:
            # Else when the rest of the body has come: closed before, the client might never read the answer.
            self.writer.close()
        self.on_response()


def _nothing() -> None:
    """Called in place of a connection that has been told of the end."""
