"""Sessions of the handshake era over HTTP: who opened them, what runs in them, when they end."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcp_types import RequestId

from spindle.domain.json_schema import JsonObject, to_json
from spindle.mcp_imports import (
    CallOptions,
    Connection,
    ServerRunner,
    aclose_shielded,
    coerce_request_id,
)
from spindle.mcp_protocol.errors import NoWayBackError
from spindle.mcp_server.exchange import NoticeStream
from spindle.mcp_server.listeners import SessionListener
from spindle.mcp_server.questions import Questions
from spindle.serving.quotas import Shares

if TYPE_CHECKING:
    from spindle.domain.identity import Principal
    from spindle.mcp_server.channel import RequestChannel
    from spindle.mcp_server.server import CatalogServer

IDLE_TIMEOUT = 30 * 60.0
MAX_SESSIONS = 10_000
SWEEP_EVERY = 60.0
MAX_MISSED = 100
"""Notices that are kept for a client that has no stream open; the same is kept once."""

logger = logging.getLogger("spindle.serve")

SESSION_HEADER = b"mcp-session-id"


class HttpSession:
    """A session of the handshake era. It is also its connection's `Outbound`: messages outside of requests
    go to the client's GET."""

    def __init__(self, catalog: CatalogServer, principal: Principal) -> None:
        self.id = secrets.token_hex(16)
        self.principal = principal
        self.questions = Questions()
        self.stream: NoticeStream | None = None
        self.scope: Mapping[str, Any] | None = None
        """Of the request that opened the stream."""
        self.running: dict[RequestId, tuple[asyncio.Task[Any], RequestChannel]] = {}
        self.connection = Connection.for_loop(self, session_id=self.id)
        self.runner = ServerRunner(catalog.server, self.connection, {}, init_options=catalog.init_options)
        self.last_used = time.monotonic()
        self._missed: dict[bytes, JsonObject] = {}
        self.listener = SessionListener(self.connection, principal, lambda: self.scope, self.close_stream)

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
            channel.cancel()
            task.cancel()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> JsonObject:
        if self.stream is None:
            raise NoWayBackError(method)
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

    def open_stream(self, scope: Mapping[str, Any]) -> NoticeStream:
        """Opens the session's stream, which begins with the messages that came before it."""
        self.stream = stream = NoticeStream()
        self.scope = scope
        for message in self._missed.values():
            stream.put(message)
        self._missed.clear()
        return stream

    def close_stream(self) -> None:
        if self.stream is not None:
            self.stream.close()


class Sessions:
    """The open sessions of the handshake era. Each client has its share: its own idle session that was used
    longest ago ends for a new one, and nobody else's."""

    def __init__(self, catalog: CatalogServer) -> None:
        self._catalog = catalog
        self._open: dict[str, HttpSession] = {}
        self._shares: Shares[HttpSession] = Shares("sessions open", MAX_SESSIONS)

    def get(self, session_id: str, principal: Principal) -> HttpSession | None:
        """The session of this id, or None; also None for another principal's, who must not learn that it
        exists."""
        found = self._open.get(session_id)
        if found is None or found.principal != principal:
            return None
        found.touch()
        self._shares.used(principal.id, found)
        return found

    async def opened(self, session: HttpSession) -> None:
        """Takes a session in. Raises RateLimitedError if all that its client has are in use."""
        if session.id in self._open:
            return
        share = self._catalog.config.quotas.sessions
        oldest = self._shares.add(session.principal.id, session, share, _without_work)
        self._open[session.id] = session
        self._catalog.changes.joined(session.listener)
        if oldest is not None:
            logger.info("a session of %s ends for a new one: it has %d", session.principal.id, share)
            await self.end(oldest)

    async def end(self, session: HttpSession) -> None:
        self._open.pop(session.id, None)
        self._shares.remove(session.principal.id, session)
        self._catalog.changes.left(session.connection)
        session.questions.close()
        session.close_stream()
        for task, _ in list(session.running.values()):
            task.cancel()
        await aclose_shielded(session.connection)

    async def sweep(self) -> None:
        """Ends idle sessions, and streams whose token expired, for as long as the server runs."""
        while True:
            await asyncio.sleep(SWEEP_EVERY)
            await self._catalog.changes.end_expired()
            for session in [item for item in self._open.values() if item.is_idle]:
                await self.end(session)

    def close_streams(self) -> None:
        for session in self._open.values():
            session.close_stream()

    async def close(self) -> None:
        for session in list(self._open.values()):
            await self.end(session)


def _without_work(session: HttpSession) -> bool:
    return not session.running and session.stream is None
