"""Sessions of the handshake era over HTTP: who opened them, what runs in them, when they end."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcp_types import RequestId

from spindle.domain.json_schema import JsonObject, to_json
from spindle.mcp_imports import (
    CallOptions,
    Connection,
    NoBackChannelError,
    ServerRunner,
    aclose_shielded,
    coerce_request_id,
)
from spindle.mcp_server.exchange import NoticeStream
from spindle.mcp_server.questions import Questions

if TYPE_CHECKING:
    from spindle.domain.identity import Principal
    from spindle.mcp_server.channel import RequestChannel
    from spindle.mcp_server.server import CatalogServer

IDLE_TIMEOUT = 30 * 60.0
MAX_SESSIONS = 10_000
SWEEP_EVERY = 60.0
MAX_MISSED = 100
"""Notices that are kept for a client that has no stream open; the same is kept once."""

SESSION_HEADER = b"mcp-session-id"


class HttpSession:
    """A session of the handshake era. It is also its connection's `Outbound`: messages outside of requests
    go to the client's GET."""

    def __init__(self, catalog: CatalogServer, principal: Principal) -> None:
        self.id = secrets.token_hex(16)
        self.principal = principal
        self.questions = Questions()
        self.stream: NoticeStream | None = None
        self.running: dict[RequestId, tuple[asyncio.Task[Any], RequestChannel]] = {}
        self.connection = Connection.for_loop(self, session_id=self.id)
        self.runner = ServerRunner(catalog.server, self.connection, {}, init_options=catalog.init_options)
        self.last_used = time.monotonic()
        self._missed: dict[bytes, JsonObject] = {}

    @property
    def headers(self) -> tuple[tuple[bytes, bytes], ...]:
        return ((SESSION_HEADER, self.id.encode()),)

    @property
    def is_idle(self) -> bool:
        busy = self.running or self.stream is not None
        return not busy and time.monotonic() - self.last_used > IDLE_TIMEOUT

    def cancel(self, request_id: RequestId) -> None:
        running = self.running.get(coerce_request_id(request_id))
        if running is not None:
            task, channel = running
            channel.cancel_requested.set()
            task.cancel()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> JsonObject:
        if self.stream is None:
            raise NoBackChannelError(method)
        return await self.questions.ask(method, params, self.put)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        message: JsonObject = {"jsonrpc": "2.0", "method": method}
        await self.put(message | ({"params": dict(params)} if params is not None else {}))

    def touch(self) -> None:
        self.last_used = time.monotonic()

    async def put(self, message: JsonObject) -> None:
        if self.stream is not None:
            self.stream.put(message)
        elif "id" not in message:
            # Also a client that listens is without a stream at times: before its first, and when it is lost.
            self._missed[to_json(message)] = message
            if len(self._missed) > MAX_MISSED:
                del self._missed[next(iter(self._missed))]

    def open_stream(self) -> NoticeStream:
        """Opens the session's stream, which begins with the messages that came before it."""
        self.stream = stream = NoticeStream()
        for message in self._missed.values():
            stream.put(message)
        self._missed.clear()
        return stream


class Sessions:
    """The open sessions of the handshake era."""

    def __init__(self, catalog: CatalogServer) -> None:
        self._catalog = catalog
        self._open: dict[str, HttpSession] = {}

    def get(self, session_id: str, principal: Principal) -> HttpSession | None:
        """The session of this id, or None; also None for another principal's, who must not learn that it
        exists."""
        found = self._open.get(session_id)
        if found is None or found.principal != principal:
            return None
        found.touch()
        return found

    def make(self, principal: Principal) -> HttpSession | None:
        """A session that is about to open; None where there are too many."""
        if len(self._open) >= MAX_SESSIONS:
            return None
        return HttpSession(self._catalog, principal)

    def opened(self, session: HttpSession) -> None:
        self._open[session.id] = session
        self._catalog.changes.connections.add(session.connection)

    async def end(self, session: HttpSession) -> None:
        self._open.pop(session.id, None)
        self._catalog.changes.left(session.connection)
        session.questions.close()
        if session.stream is not None:
            session.stream.close()
        for task, _ in list(session.running.values()):
            task.cancel()
        await aclose_shielded(session.connection)

    async def sweep(self) -> None:
        """Ends idle sessions, for as long as the server runs."""
        while True:
            await asyncio.sleep(SWEEP_EVERY)
            for session in [item for item in self._open.values() if item.is_idle]:
                await self.end(session)

    def close_streams(self) -> None:
        for session in self._open.values():
            if session.stream is not None:
                session.stream.close()

    async def close(self) -> None:
        for session in list(self._open.values()):
            await self.end(session)
