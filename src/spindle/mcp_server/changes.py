"""Telling clients that something changed, in the way of their era: a notification to every session of
the handshake era, an event to every stream that a client of 2026-07-28 listens on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mcp_types import SubscriptionsListenRequestParams

from spindle.errors import SpindleError
from spindle.mcp_imports import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from spindle.mcp_server.inbound import RequestContext, inbound

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.catalog.diff import SyncReport
    from spindle.domain.identity import Principal
    from spindle.domain.json_schema import JsonObject
    from spindle.mcp_imports import Connection, Server, ServerEvent
    from spindle.mcp_server.relay import ClientRelay

logger = logging.getLogger("spindle.serve")

LOOK_EVERY = 2.0
"""Seconds between looks at whether another process, or an editor, changed the tools."""
MAX_WATCHES = 1000

EVENTS: dict[str, Callable[[], ServerEvent]] = {
    "notifications/tools/list_changed": ToolsListChanged,
    "notifications/prompts/list_changed": PromptsListChanged,
    "notifications/resources/list_changed": ResourcesListChanged,
}


class Changes:
    """Tells clients about changes of the catalog."""

    def __init__(self, app: Spindle, relay: ClientRelay, server: Server[Any]) -> None:
        self._app = app
        self._relay = relay
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._bus)
        self.connections: set[Connection] = set()
        """Those of the handshake era that are open."""
        self._subscribed: dict[str, set[Connection]] = {}
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._watched: dict[str, tuple[str, str]] = {}
        """By address as clients know it, the source of what is watched, and its address there."""
        self._listening: dict[str, int] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._seen = -1
        self._relayed = relay.settings
        server.add_request_handler(
            "subscriptions/listen", SubscriptionsListenRequestParams, self._serve_listen
        )

    def start(self) -> None:
        self._app.catalog.on_change(self._changed)
        self._app.catalog.sources.notices.append(self._notice)
        self._spawn(self._look())

    def close_streams(self) -> None:
        """End the streams that clients listen on, in good order."""
        self._listen.close()

    async def close(self) -> None:
        self.close_streams()
        tasks = [*self._tasks, *self._watches.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def tell(self, method: str) -> None:
        self._spawn(self._bus.publish(EVENTS[method]()))
        for connection in list(self.connections):
            if connection.initialized.is_set():
                self._spawn(connection.notify(method, None))

    def _notice(self, source: str, method: str, params: JsonObject) -> None:
        if method in EVENTS:
            self.tell(method)
        elif method == "notifications/resources/updated":
            changed = (source, str(params.get("uri")))
            for uri in [uri for uri, home in self._watched.items() if home == changed]:
                self._spawn(self._bus.publish(ResourceUpdated(uri=uri)))
                for connection in self._subscribed.get(uri, ()):
                    self._spawn(connection.notify(method, {"uri": uri}))

    def _changed(self, report: SyncReport) -> None:
        """Tools are others, or exist for others; then so may be what else sources have."""
        self.tell("notifications/tools/list_changed")
        self._spawn(self._take_note())
        before, self._relayed = self._relayed, self._relay.settings
        if not report.source or before != self._relayed:
            self.tell("notifications/prompts/list_changed")
            self.tell("notifications/resources/list_changed")

    async def _take_note(self) -> None:
        self._seen = await self._app.catalog.version()

    async def _look(self) -> None:
        """Watches for changes by other processes; those of this process are told at once."""
        catalog = self._app.catalog
        await self._take_note()
        while True:
            await asyncio.sleep(LOOK_EVERY)
            try:
                await catalog.look_again()
                now = await catalog.version()
            except SpindleError as error:
                logger.warning("could not look for changes of the tools: %s", error.message)
                continue
            if now != self._seen:
                self._seen = now
                self.tell("notifications/tools/list_changed")

    # --- watched resources

    async def subscribe(self, connection: Connection, principal: Principal, uri: str) -> None:
        await self._watch(principal, uri)
        self._subscribed.setdefault(uri, set()).add(connection)

    def unsubscribe(self, connection: Connection, uri: str) -> None:
        watchers = self._subscribed.get(uri)
        if watchers is not None:
            watchers.discard(connection)
            if not watchers:
                del self._subscribed[uri]
        self._let_go(uri)

    def left(self, connection: Connection) -> None:
        """A session of the handshake era is over."""
        self.connections.discard(connection)
        for uri in [uri for uri, watchers in self._subscribed.items() if connection in watchers]:
            self.unsubscribe(connection, uri)

    async def _serve_listen(self, ctx: RequestContext, params: SubscriptionsListenRequestParams) -> Any:
        uris = params.notifications.resource_subscriptions or []
        principal = inbound(ctx).principal
        for uri in uris:
            self._listening[uri] = self._listening.get(uri, 0) + 1
        try:
            for uri in uris:
                try:
                    await self._watch(principal, uri)
                except SpindleError as error:
                    # As the protocol has it, listening for what never comes is no mistake.
                    logger.debug("%s is not watched: %s", uri, error.message)
            return await self._listen(ctx, params)
        finally:
            for uri in uris:
                self._listening[uri] -= 1
                if not self._listening[uri]:
                    del self._listening[uri]
                self._let_go(uri)

    async def _watch(self, principal: Principal, uri: str) -> None:
        """Have the source tell of a resource, once for all clients."""
        source, inner = await self._relay.home(principal, uri)
        if uri in self._watches or len(self._watches) >= MAX_WATCHES:
            return
        self._watched[uri] = source, inner
        watch = self._relay.watch(source, principal, inner)
        task = self._watches[uri] = asyncio.create_task(watch, name=f"watch of {uri}")
        task.add_done_callback(lambda done: self._watch_ended(uri, done))

    def _let_go(self, uri: str) -> None:
        if uri not in self._subscribed and uri not in self._listening:
            watch = self._watches.pop(uri, None)
            self._watched.pop(uri, None)
            if watch is not None:
                watch.cancel()

    def _watch_ended(self, uri: str, task: asyncio.Task[None]) -> None:
        if self._watches.get(uri) is task:
            del self._watches[uri]
            self._watched.pop(uri, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.warning("%s is no longer watched: %s", uri, error)

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
