"""Sessions of the handshake era over HTTP: who opened them, what runs in them, when they end.

A session is held in memory by each process that it is used in. Its id has all that a process needs for that,
and the store what its client has set since, so that none is lost with a process or for want of room.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from spindle.auth.details import DetailSealer
from spindle.domain.json_schema import JsonObject
from spindle.mcp_protocol.errors import RequestId, same_id
from spindle.mcp_server.connection import ClientConnection
from spindle.mcp_server.inbound import LOG_LEVEL
from spindle.mcp_server.kept_answers import KeptAnswers
from spindle.mcp_server.listeners import SessionListener
from spindle.mcp_server.notices import Notices
from spindle.mcp_server.questions import Questions, asked_by, roots_of
from spindle.mcp_server.session_ids import SessionFacts, SessionIds, client_of
from spindle.mcp_server.session_records import SessionRecord, SessionRecords
from spindle.serving.quotas import Shares

if TYPE_CHECKING:
    from spindle.domain.identity import Principal
    from spindle.mcp_server.server import CatalogServer

IDLE_TIMEOUT = 30 * 60.0
MAX_RUNNING = 1000
"""Requests of one session at a time."""
MAX_SESSIONS = 10_000
SWEEP_EVERY = 60.0

logger = logging.getLogger("spindle.serve")

SESSION_HEADER = b"mcp-session-id"


class Cancellable(Protocol):
    """A request that its client may cancel."""

    def cancel(self) -> None: ...


class HttpSession:
    """A session of the handshake era. It is also its connection's `Outbound`: messages outside of requests
    go to the client's GET."""

    def __init__(self, catalog: CatalogServer, principal: Principal) -> None:
        self.id = ""
        """Empty until the handshake is over, as all that was agreed on is in it."""
        self.facts: SessionFacts | None = None
        self.principal = principal
        self.questions = Questions(catalog.processes)
        self.notices = Notices(catalog.processes.id)
        self.scope: Mapping[str, Any] | None = None
        """Of the request that opened the stream."""
        self.running: dict[RequestId, tuple[asyncio.Task[Any], Cancellable]] = {}
        self.connection = ClientConnection(self)
        self.last_used = time.monotonic()
        self.listener = SessionListener(self.connection, principal, lambda: self.scope, self.notices.close)

    @property
    def headers(self) -> tuple[tuple[bytes, bytes], ...]:
        return ((SESSION_HEADER, self.id.encode()),)

    @property
    def is_open(self) -> bool:
        """True once the handshake is over, in this process or another."""
        return self.connection.client_params is not None

    @property
    def is_idle(self) -> bool:
        busy = self.running or self.notices.is_open
        return not busy and time.monotonic() - self.last_used > IDLE_TIMEOUT

    def now_of(self, principal: Principal) -> None:
        """The principal is in other groups than before."""
        self.principal = self.listener.principal = principal

    def begin(self, session_id: str, facts: SessionFacts, client: JsonObject | None = None) -> None:
        """Gives the session its id. `client` is what its client said in a handshake with another process."""
        self.id, self.facts = session_id, facts
        self.connection.session_id = facts.key
        if client is not None:
            self.connection.agree(facts.version, client)
            self.connection.is_initialized = True

    def recall(self, record: SessionRecord) -> None:
        """Sets what the client has set, in whichever process."""
        if record.level is not None:
            self.connection.state[LOG_LEVEL] = record.level

    def cancel(self, request_id: RequestId) -> bool:
        """Ends a request of the client, and returns True if it runs here."""
        running = self.running.get(same_id(request_id))
        if running is None:
            return False
        task, channel = running
        channel.cancel()
        task.cancel()
        return True

    async def notify(self, method: str, params: Mapping[str, Any] | None) -> None:
        message: JsonObject = {"jsonrpc": "2.0", "method": method}
        await self.put(message | ({"params": dict(params)} if params is not None else {}))

    def touch(self) -> None:
        self.last_used = time.monotonic()

    async def put(self, message: JsonObject) -> None:
        self.notices.put(message)


class Sessions:
    """The sessions of the handshake era that this process holds. Each client has its share of room: for
    another one, its own idle session that was used longest ago is put out of memory, and nobody else's."""

    def __init__(self, catalog: CatalogServer) -> None:
        self._catalog = catalog
        self._processes = catalog.processes
        self._open: dict[str, HttpSession] = {}
        self._by_key: dict[str, HttpSession] = {}
        self._shares: Shares[HttpSession] = Shares("sessions open", MAX_SESSIONS)
        sealer = DetailSealer(catalog.app.auth.keys)
        self._ids = SessionIds(catalog.app.store, sealer, time.time)
        self.records = SessionRecords(catalog.app.store, sealer, time.time)
        self.kept = KeptAnswers(self._processes.id, catalog.app.store, sealer, time.time)
        self._tasks: set[asyncio.Task[None]] = set()
        catalog.changes.sessions = self
        self._processes.on("answer", self._answered_elsewhere)
        self._processes.on("cancel", self._cancelled_elsewhere)
        self._processes.on("ended", self._ended_elsewhere)
        self._processes.on("changed", self._changed_elsewhere)
        self._processes.on("roots changed", self._roots_changed_elsewhere)
        self._processes.on("ask", self._asked_elsewhere)

    def get(self, session_id: str, principal: Principal) -> HttpSession | None:
        """The session of this id, or None if this process does not hold it; also None for another
        principal's, who must not learn that it exists."""
        found = self._open.get(session_id)
        if found is None or found.principal.id != principal.id:
            return None
        return found if self.used(found, principal) else None

    def used(self, session: HttpSession, principal: Principal) -> bool:
        """Notes that its principal, perhaps in other groups than before, uses a session now. False if this
        process does not hold it any more."""
        if self._open.get(session.id) is not session:
            return False
        if session.principal is not principal and session.principal != principal:
            session.now_of(principal)
        session.touch()
        self._shares.used(principal.id, session)
        return True

    async def revived(self, session_id: str, principal: Principal) -> HttpSession | None:
        """The session of an id that this process does not know, or None: it is not of this principal, has
        ended, or is too old."""
        facts = await self._ids.read(session_id, principal)
        if facts is None:
            return None
        record = await self.records.load(facts)
        client = facts.client or record.client
        if record.ended or client is None:
            return None
        known = self.get(session_id, principal)
        if known is not None:
            return known  # another request was faster
        session = HttpSession(self._catalog, principal)
        session.begin(session_id, facts, client)
        session.recall(record)
        await self._take_in(session)
        await self._catalog.changes.recall(session.listener, record.watched)
        return session

    async def opened(self, session: HttpSession) -> None:
        """Takes in a session whose handshake is done, and gives it an id. Raises RateLimitedError if all that
        its client has are in use."""
        if session.facts is None:
            connection = session.connection
            assert connection.client_params is not None
            client = client_of(connection.client_params)
            made, facts = await self._ids.make(session.principal, connection.protocol_version, client)
            if facts.client is None:
                await self.records.keep_client(facts, client)
            session.begin(made, facts)
            await self._take_in(session)

    async def _take_in(self, session: HttpSession) -> None:
        assert session.facts is not None
        share = self._catalog.config.quotas.sessions
        oldest = self._shares.add(session.principal.id, session, share, _without_work)
        self._open[session.id] = self._by_key[session.facts.key] = session
        self._catalog.changes.joined(session.listener)
        if oldest is not None:
            logger.info("a session of %s makes room for a new one: it has %d", session.principal.id, share)
            await self.put_away(oldest)

    async def end(self, session: HttpSession) -> None:
        """Ends a session for good, in all processes."""
        await self.put_away(session)
        if session.facts is not None:
            await self.records.end(session.facts)
            await self.kept.forget_all(session.facts.key)
            await self._processes.tell_others("ended", {"session": session.facts.key})

    async def put_away(self, session: HttpSession) -> None:
        """Holds a session no longer. Its client can go on with it at any time."""
        self._open.pop(session.id, None)
        if session.facts is not None:
            self._by_key.pop(session.facts.key, None)
        self._shares.remove(session.principal.id, session)
        self._catalog.changes.left(session.connection)
        if session.facts is not None:
            self._catalog.app.catalog.connections.retire_holder(session.listener.holder)
        for task, _ in list(session.running.values()):
            task.cancel()
        session.questions.close()  # of what is not a request
        session.notices.close()

    # --- what clients tell another process than the one that it is for

    async def answered(self, session: HttpSession, message: JsonObject) -> None:
        """Takes a client's answer to a question, of this process or another."""
        if session.questions.answered(message) or session.facts is None:
            return
        process = asked_by(message)
        if process is not None and process != self._processes.id:
            body = {"session": session.facts.key, "message": message}
            await self._processes.send(process, "answer", body)

    def _answered_elsewhere(self, _: str, body: JsonObject) -> None:
        session = self._by_key.get(body["session"])
        if session is not None:
            session.questions.answered(body["message"])

    async def cancelled(self, session: HttpSession, request_id: RequestId) -> None:
        """Ends a request of the client, wherever it runs."""
        if not session.cancel(request_id) and session.facts is not None:
            body = {"session": session.facts.key, "request": request_id}
            await self._processes.tell_others("cancel", body)

    def _cancelled_elsewhere(self, _: str, body: JsonObject) -> None:
        session = self._by_key.get(body["session"])
        if session is not None:
            session.cancel(body["request"])

    def _ended_elsewhere(self, _: str, body: JsonObject) -> None:
        session = self._by_key.get(body["session"])
        if session is not None:
            self._spawn(self.put_away(session))

    async def roots_changed(self, session: HttpSession) -> None:
        """Tells the servers that keep a session for this client, in whichever process, that its roots are
        others."""
        await self._tell_roots_changed(session)
        if session.facts is not None:
            await self._processes.tell_others("roots changed", {"session": session.facts.key})

    def _roots_changed_elsewhere(self, _: str, body: JsonObject) -> None:
        session = self._by_key.get(body["session"])
        if session is not None:
            self._spawn(self._tell_roots_changed(session))

    async def _tell_roots_changed(self, session: HttpSession) -> None:
        holders = {session.listener.holder, session.principal.holder} - {""}
        connections = self._catalog.app.catalog.connections
        await connections.tell_roots_changed(holders, partial(self._roots, session))

    async def _roots(self, session: HttpSession) -> JsonObject:
        """The client's roots, outside of any request: it is asked on its stream of notices."""

        async def send(message: JsonObject) -> None:
            if session.notices.is_open:
                session.notices.put(message)
            elif session.facts is not None:  # its stream is in another process, if it has one
                body = {"session": session.facts.key, "message": message}
                await self._processes.tell_others("ask", body)

        return await roots_of(session.connection, partial(session.questions.ask, send=send))

    def _asked_elsewhere(self, _: str, body: JsonObject) -> None:
        session = self._by_key.get(body["session"])
        if session is not None:
            session.notices.put(body["message"])  # where there is no stream, nobody is asked

    # --- what clients set

    async def set_level(self, key: str | None, level: str) -> None:
        """Keeps the level that a client set, for all processes."""
        session = self._by_key.get(key or "")
        if session is not None and session.facts is not None:
            await self.records.set_level(session.facts, level)
            await self._processes.tell_others("changed", {"session": key})

    async def set_watched(self, key: str | None, uri: str, *, watched: bool) -> None:
        """Keeps that a client subscribed to a resource, or no longer does, for all processes."""
        session = self._by_key.get(key or "")
        if session is not None and session.facts is not None:
            keep = self.records.watch if watched else self.records.unwatch
            await keep(session.facts, uri)
            await self._processes.tell_others("changed", {"session": key})

    def _changed_elsewhere(self, _: str, body: JsonObject) -> None:
        session = self._by_key.get(body["session"])
        if session is not None:
            self._spawn(self.recall(session))

    async def recall(self, session: HttpSession) -> None:
        """Takes over what the client of a session has set in other processes."""
        assert session.facts is not None
        record = await self.records.load(session.facts)
        if record.ended:
            await self.put_away(session)
            return
        session.recall(record)
        await self._catalog.changes.recall(session.listener, record.watched)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.warning("what another process told of a session had no effect: %s", error)

    # --- while the server runs, and when it stops

    async def sweep(self) -> None:
        """Puts idle sessions away, and ends streams whose token expired, for as long as the server runs."""
        while True:
            await asyncio.sleep(SWEEP_EVERY)
            await self._catalog.changes.end_expired()
            for session in [item for item in self._open.values() if item.is_idle]:
                await self.put_away(session)

    def close_streams(self) -> None:
        for session in self._open.values():
            session.notices.close()

    async def close(self) -> None:
        await self.kept.close()
        for session in list(self._open.values()):
            await self.put_away(session)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _without_work(session: HttpSession) -> bool:
    return not session.running and not session.notices.is_open
