"""Telling clients that something changed, in the way of their era, and only those to whom it is visible: a
notification to sessions of the handshake era, an event to streams that clients of 2026-07-28 listen on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from spindle.calls.relay import UPDATED
from spindle.calls.requests import Client
from spindle.calls.watch import follow
from spindle.errors import ClientError, SpindleError
from spindle.mcp_server.client_peer import ClientPeer
from spindle.mcp_server.inbound import LOG_LEVEL, WATCHES, inbound
from spindle.mcp_server.listeners import LISTS, Listener, SessionListener, StreamListener
from spindle.serving.quotas import Shares

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.catalog.diff import SyncReport
    from spindle.domain.identity import Principal
    from spindle.domain.json_schema import JsonObject
    from spindle.mcp_server.connection import ClientConnection
    from spindle.mcp_server.inbound import RequestContext
    from spindle.mcp_server.relay import ClientRelay
    from spindle.serving.access import ServingAccess
    from spindle.serving.connecting import ConnectTools

logger = logging.getLogger("spindle.serve")

LOOK_EVERY = 2.0
"""Seconds between looks at whether another process, or an editor, changed the tools."""
MAX_WATCHES = 1000
MAX_STREAMS = 5000

WatchKey = tuple[str, str, str]
"""The id of the principal that watches a resource, the holder of the session in which it is watched, and the
resource's address as they know it."""


class KeptSessions(Protocol):
    """Keeps what clients of the handshake era set, so that it holds in all processes. Sessions are given by
    the ids of their connections; others than those that are kept are left alone."""

    async def set_level(self, key: str | None, level: str) -> None: ...
    async def set_watched(self, key: str | None, uri: str, *, watched: bool) -> None: ...


@dataclass(slots=True)
class _Watch:
    """A resource that is watched for one principal or one client of theirs, for all that they have open."""

    source: str
    task: asyncio.Task[None]
    listeners: set[Listener] = field(default_factory=set[Listener])


class Changes:
    """Tells clients about changes of the catalog."""

    def __init__(
        self, app: Spindle, access: ServingAccess, relay: ClientRelay, connect: ConnectTools
    ) -> None:
        self._app = app
        self._access = access
        self._relay = relay
        self._connect = connect
        self.sessions: KeptSessions | None = None
        """Keeps what clients set in sessions that outlive this process."""
        self._sessions: dict[ClientConnection, SessionListener] = {}
        """Those of the handshake era that are open."""
        self._streams: set[StreamListener] = set()
        self.open_streams: Shares[Listener] = Shares("streams open", MAX_STREAMS)
        """The streams of all clients, of both eras."""
        self._watches: dict[WatchKey, _Watch] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._seen = -1
        self._relayed = relay.settings

    def start(self) -> None:
        self._app.catalog.on_change(self._changed)
        self._app.catalog.sources.notices.append(self._notice)
        self._spawn(self._look())

    def close_streams(self) -> None:
        """End the streams that clients listen on, in good order."""
        for stream in list(self._streams):
            stream.close()

    async def close(self) -> None:
        self.close_streams()
        tasks = [*self._tasks, *(watch.task for watch in self._watches.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- who is told

    def joined(self, listener: SessionListener) -> None:
        """A session of the handshake era is open."""
        self._sessions[listener.connection] = listener

    def left(self, connection: ClientConnection) -> None:
        """A session of the handshake era is over."""
        listener = self._sessions.pop(connection, None)
        if listener is not None:
            self._let_go(listener, list(self._watches))

    def tell(self, method: str, visible: Callable[[Principal], bool] = lambda _: True) -> None:
        """Tells all clients to whom it is visible that a list changed."""
        self._send([*self._sessions.values(), *self._streams], visible, method, None)

    def take_stream(self, listener: Listener) -> None:
        """Counts a stream, and ends the oldest of the same client if that has too many. Raises
        RateLimitedError if there is no room."""
        share = self._access.config.quotas.streams
        displaced = self.open_streams.add(listener.principal.id, listener, share)
        if displaced is not None:
            logger.info("the oldest stream of %s ends: it has %d", listener.principal.id, share)
            displaced.close()

    def _send(
        self,
        listeners: Iterable[Listener],
        visible: Callable[[Principal], bool],
        method: str,
        params: JsonObject | None,
    ) -> None:
        for listener in listeners:
            self._spawn(self._tell(listener, visible, method, params))

    async def _tell(
        self,
        listener: Listener,
        visible: Callable[[Principal], bool],
        method: str,
        params: JsonObject | None,
    ) -> None:
        if await self._is_admitted(listener) and visible(listener.principal):
            await listener.tell(method, params)

    async def _is_admitted(self, listener: Listener) -> bool:
        """True if the token of a client is good now. Its groups may be others than when it came."""
        now = await self._access.now_admits(listener.scope(), listener.principal)
        if now is None:
            listener.close()
            return False
        listener.principal = now
        return True

    async def end_expired(self) -> None:
        """Ends the streams of clients whose tokens are not good any more."""
        for listener in [*self._sessions.values(), *self._streams]:
            await self._is_admitted(listener)

    # --- what changed

    def _notice(self, source: str, method: str, params: JsonObject, whose: str) -> None:
        if method in LISTS:
            self.tell(method, lambda principal: self._access.offers(principal, source))

    def _changed(self, report: SyncReport) -> None:
        """Tools are others, or exist for others; then so may be what else sources have."""
        names = {*report.added, *report.removed, *(item.name for item in (*report.changed, *report.held))}
        everybody = not report.source or not names

        def sees(principal: Principal) -> bool:
            return everybody or any(self._access.shows(principal, name) for name in names)

        self.tell("notifications/tools/list_changed", sees)
        self._spawn(self._take_note())
        before, self._relayed = self._relayed, self._relay.settings
        if not report.source or before != self._relayed:
            self.tell("notifications/prompts/list_changed")
            self.tell("notifications/resources/list_changed")
        if not report.source:
            self._spawn(self.end_expired())

    async def _take_note(self) -> None:
        self._seen = await self._app.catalog.stored_version.number()

    async def _look(self) -> None:
        """Watches for changes by other processes; those of this process are told at once."""
        catalog = self._app.catalog
        await self._take_note()
        while True:
            await asyncio.sleep(LOOK_EVERY)
            try:
                await self._tell_connected()
                await catalog.look_again()
                now = await catalog.stored_version.number()
            except SpindleError as error:
                logger.warning("could not look for changes of the tools: %s", error.message)
                continue
            if now != self._seen:
                self._seen = now
                self.tell("notifications/tools/list_changed")

    async def _tell_connected(self) -> None:
        """Tells those clients of their other tools whose users have given a consent that was missing."""
        listening = {listener.principal for listener in (*self._sessions.values(), *self._streams)}
        for principal, sources in (await self._connect.connected(listening)).items():
            # By itself: a source that is slow to list its tools holds up nobody else.
            self._spawn(self._tell_when_ready(principal, sources))

    async def _tell_when_ready(self, principal: Principal, sources: frozenset[str]) -> None:
        await self._connect.make_ready(sources, principal)
        self.tell("notifications/tools/list_changed", lambda who: who.id == principal.id)

    def tell_anew(self, listener: SessionListener) -> None:
        """Tells a client that everything may have changed: what it has missed is not known."""
        for method in LISTS:
            self._send([listener], lambda _: True, method, None)
        for key in [key for key, watch in self._watches.items() if listener in watch.listeners]:
            self._updated(key, [listener])

    # --- what clients of the handshake era set

    async def set_level(self, connection: ClientConnection, level: str) -> None:
        connection.state[LOG_LEVEL] = level
        if self.sessions is not None:
            await self.sessions.set_level(connection.session_id, level)

    # --- watched resources

    async def subscribe(self, connection: ClientConnection, uri: str, client: Client) -> None:
        listener = self._sessions.get(connection)
        if listener is not None:
            connection.state[WATCHES] = True
            await self._watch(listener, uri, client)
            if self.sessions is not None:
                await self.sessions.set_watched(connection.session_id, uri, watched=True)

    async def unsubscribe(self, connection: ClientConnection, uri: str) -> None:
        listener = self._sessions.get(connection)
        if listener is not None:
            self._let_go(listener, self._watched_by(listener, uri))
            if self.sessions is not None:
                await self.sessions.set_watched(connection.session_id, uri, watched=False)

    async def recall(self, listener: SessionListener, uris: Set[str]) -> None:
        """Watches for a session what its client subscribed to, in whichever process, and nothing else."""
        if uris:
            listener.connection.state[WATCHES] = True
        watched = {key[2]: key for key, watch in self._watches.items() if listener in watch.listeners}
        self._let_go(listener, [watched[uri] for uri in watched.keys() - uris])
        for uri in uris - watched.keys():
            try:
                await self._watch(listener, uri)
            except SpindleError as error:
                logger.warning("%s is no longer watched: %s", uri, error.message)

    async def listen(self, ctx: RequestContext) -> JsonObject:
        """Answers a client of 2026-07-28 with a stream of what it wants to hear of."""
        request = inbound(ctx)
        peer = ClientPeer(ctx, self._access)
        wanted: JsonObject = (ctx.params or {})["notifications"]
        listener = StreamListener(request.principal, request.scope, wanted, peer)
        self.take_stream(listener)
        self._streams.add(listener)
        try:
            for uri in listener.uris:
                try:
                    await self._watch(listener, uri, Client(peer))
                except SpindleError as error:
                    # As the protocol has it, listening for what never comes is no mistake.
                    logger.debug("%s is not watched: %s", uri, error.message)
            return await listener.serve(ctx)
        finally:
            self._streams.discard(listener)
            self.open_streams.remove(listener.principal.id, listener)
            self._let_go(listener, list(self._watches))

    async def _watch(self, listener: Listener, uri: str, client: Client | None = None) -> None:
        """Have the source tell of a resource, as it shows it to this client."""
        principal = listener.principal
        source, inner = await self._relay.home(principal, uri, client)
        holder = self._app.catalog.sources.get(source).holder_of(principal, listener)
        key = principal.id, holder, uri
        watch = self._watches.get(key)
        if watch is None:
            own = sum(who == principal.id for who, _, _ in self._watches)
            share = self._access.config.quotas.watches
            if own >= share or len(self._watches) >= MAX_WATCHES:
                whose = f"this client watches {share}" if own >= share else f"{MAX_WATCHES} are watched"
                raise ClientError(f"{uri!r} is not watched: {whose} resources already; see serve.quotas")
            changed = partial(self._updated, key)
            watching = follow(self._relay, source, principal, inner, changed, logger.warning, client=listener)
            watch = _Watch(source, asyncio.create_task(watching, name=f"watch of {uri}"))
            self._watches[key] = watch
            watch.task.add_done_callback(lambda done: self._watch_ended(key, done))
        watch.listeners.add(listener)

    def _updated(self, key: WatchKey, listeners: Iterable[Listener] | None = None) -> None:
        watch = self._watches.get(key)
        if watch is not None:

            def sees(principal: Principal) -> bool:
                return self._access.offers(principal, watch.source)

            self._send(watch.listeners if listeners is None else listeners, sees, UPDATED, {"uri": key[2]})

    def _watched_by(self, listener: Listener, uri: str) -> list[WatchKey]:
        return [key for key, watch in self._watches.items() if key[2] == uri and listener in watch.listeners]

    def _let_go(self, listener: Listener, keys: Iterable[WatchKey]) -> None:
        for key in keys:
            watch = self._watches.get(key)
            if watch is not None:
                watch.listeners.discard(listener)
                if not watch.listeners:
                    del self._watches[key]
                    watch.task.cancel()

    def _watch_ended(self, key: WatchKey, task: asyncio.Task[None]) -> None:
        watch = self._watches.get(key)
        if watch is not None and watch.task is task:
            del self._watches[key]
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.warning("%s is no longer watched: %s", key[2], error)

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
