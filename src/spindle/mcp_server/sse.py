"""The HTTP transport before Streamable HTTP, for old clients: one stream of events for each, at `/sse`, and
an address to which it posts its messages. Only where the settings ask for it."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from spindle.listening.headers import RequestHeaders
from spindle.mcp_protocol.names import INVALID_REQUEST
from spindle.mcp_server.channel import error_message
from spindle.mcp_server.exchange import QUIET, SSE_HEADERS, respond, until_gone
from spindle.mcp_server.lines import LineServer
from spindle.serving.quotas import Shares

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from spindle.domain.identity import Principal
    from spindle.mcp_server.server import CatalogServer

STREAM, MESSAGES = "/sse", "/messages"
MAX_STREAMS = 1000
MAX_UNREAD = 1000
"""Messages that a client may leave unread. One that reads none of them loses its stream."""
ENDING = 1.0
"""Seconds that requests may take to end when their client is gone."""


class SseSession:
    """One client's stream, and the requests that it posted."""

    def __init__(self, catalog: CatalogServer, principal: Principal, scope: Scope) -> None:
        self.id = secrets.token_urlsafe(24)
        self.principal = principal
        self._unread: asyncio.Queue[bytes] = asyncio.Queue(MAX_UNREAD)
        self._closed = asyncio.Event()
        self.server = LineServer(catalog, self._write, principal, scope=scope, close=self.close)

    async def _write(self, line: bytes) -> None:
        try:
            self._unread.put_nowait(line)
        except asyncio.QueueFull:
            self.close()

    def close(self) -> None:
        self._closed.set()

    async def serve(self, receive: Receive, send: Send, endpoint: str) -> None:
        """Sends what there is to say, until the client is gone or the stream is closed."""
        await send({"type": "http.response.start", "status": 200, "headers": [*SSE_HEADERS]})
        await _body(send, f"event: endpoint\ndata: {endpoint}\n\n".encode())
        ends = [asyncio.create_task(until_gone(receive)), asyncio.create_task(self._closed.wait())]
        try:
            while not any(task.done() for task in ends):
                getting = asyncio.create_task(self._unread.get())
                await asyncio.wait({*ends, getting}, timeout=QUIET, return_when=asyncio.FIRST_COMPLETED)
                if getting.done():
                    await _body(send, b"event: message\ndata: " + getting.result() + b"\n")
                else:
                    getting.cancel()
                    await _body(send, b": open\n\n")
        finally:
            for task in ends:
                task.cancel()
            self.server.close()
            await self.server.finish(ENDING, streams=False)
        with contextlib.suppress(OSError):
            await send({"type": "http.response.body", "body": b"", "more_body": False})


class SseApp:
    """Serves old clients beside the others, behind the same guards."""

    def __init__(self, catalog: CatalogServer, others: ASGIApp) -> None:
        self._catalog = catalog
        self._others = others
        self._open: dict[str, SseSession] = {}
        self._shares: Shares[SseSession] = Shares("streams of events open", MAX_STREAMS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].rstrip("/") if scope["type"] == "http" else None
        if path == STREAM:
            await self._stream(scope, receive, send)
        elif path == MESSAGES:
            await self._message(scope, receive, send)
        else:
            await self._others(scope, receive, send)

    def close_streams(self) -> None:
        for session in self._open.values():
            session.close()

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET":
            await respond(send, 405, None, ((b"allow", b"GET"),))
            return
        principal = self._catalog.access.principal(scope)
        session = SseSession(self._catalog, principal, scope)
        try:
            displaced = self._shares.add(principal.id, session, self._catalog.config.quotas.streams)
        except BaseException:
            session.server.close()
            raise
        if displaced is not None:
            displaced.close()
        self._open[session.id] = session
        try:
            await session.serve(receive, send, f"{MESSAGES}?session_id={session.id}")
        finally:
            self._shares.remove(principal.id, session)
            del self._open[session.id]

    async def _message(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await respond(send, 405, None, ((b"allow", b"POST"),))
            return
        named = parse_qs(scope["query_string"].decode("latin-1")).get("session_id", [""])[0]
        session = self._open.get(named)
        if session is None or session.principal != self._catalog.access.principal(scope):
            # Another's stream is none: nobody learns that it exists.
            await self._refuse(send, 404, "Session not found")
            return
        kind = RequestHeaders(scope).get(b"content-type").split(";")[0].strip().lower()
        if kind != "application/json":
            # A page of another site could post any other type without being asked for leave first.
            await self._refuse(send, 415, "Unsupported Media Type: send Content-Type: application/json")
            return
        body = await self._read(receive)
        if body is None:
            limit = self._catalog.config.max_body_size
            await self._refuse(send, 413, f"a body may have {limit} bytes; see serve.max_body_size")
            return
        session.server.line(body)
        await respond(send, 202)

    async def _read(self, receive: Receive) -> bytes | None:
        """The body of a request; None if it is larger than allowed."""
        parts: list[bytes] = []
        left = int(self._catalog.config.max_body_size)
        while True:
            event = await receive()
            part: bytes = event.get("body", b"")
            left -= len(part)
            if left < 0:
                return None
            parts.append(part)
            if event["type"] == "http.disconnect" or not event.get("more_body", False):
                return b"".join(parts)

    async def _refuse(self, send: Send, status: int, message: str) -> None:
        await respond(send, status, error_message(None, INVALID_REQUEST, message))


async def _body(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})
