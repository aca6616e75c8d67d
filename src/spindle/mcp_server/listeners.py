"""The clients that are told of changes: sessions of the handshake era, streams that a client of 2026-07-28
listens on. Each is told only while the token that it showed is good."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from spindle.mcp_protocol.names import (
    PROMPTS_CHANGED,
    RESOURCES_CHANGED,
    SUBSCRIPTION_ID,
    TOOLS_CHANGED,
)
from spindle.mcp_server.inbound import holder_of, inbound

if TYPE_CHECKING:
    from spindle.domain.identity import Principal
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.peer import SessionHolder
    from spindle.mcp_server.connection import ClientConnection
    from spindle.mcp_server.inbound import RequestContext

logger = logging.getLogger("spindle.serve")

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
WANTED = {
    TOOLS_CHANGED: "toolsListChanged",
    PROMPTS_CHANGED: "promptsListChanged",
    RESOURCES_CHANGED: "resourcesListChanged",
}
"""By the notification that a list changed, the switch of a client that wants to hear of it."""
LISTS = frozenset(WANTED)
MAX_UNREAD = 1024
"""Messages that a client may leave unread. One that does loses its stream, and asks for what changed."""


class SessionListener:
    """A session of the handshake era, by its connection. `scope` gives the request whose stream is open."""

    def __init__(
        self,
        connection: ClientConnection,
        principal: Principal,
        scope: Callable[[], Mapping[str, Any] | None],
        close: Callable[[], None],
    ) -> None:
        self.connection = connection
        self.principal = principal
        self.scope = scope
        self.close = close

    @property
    def holder(self) -> str:
        return holder_of(self.connection, self.principal)

    has_session = True

    def wants_own_session(self, answers: Collection[str]) -> bool:
        return True

    async def tell(self, method: str, params: JsonObject | None) -> None:
        if self.connection.is_initialized:
            await self.connection.notify(method, params)


class StreamListener:
    """A stream that a client of 2026-07-28 listens on: the answer to its request."""

    def __init__(
        self,
        principal: Principal,
        scope: Mapping[str, Any] | None,
        wanted: JsonObject,
        client: SessionHolder,
    ) -> None:
        """`wanted` is what the client asked to hear of; nothing else is said on the stream. `client` is the
        one that made the request."""
        self.principal = principal
        self._client = client
        self.scope = lambda: scope
        self.uris: list[str] = wanted.get("resourceSubscriptions") or []
        self._wanted: JsonObject = {name: True for name in WANTED.values() if wanted.get(name)}
        if self.uris:
            self._wanted["resourceSubscriptions"] = self.uris
        self._unread: asyncio.Queue[tuple[str, JsonObject] | None] = asyncio.Queue()
        self._is_open = True

    @property
    def holder(self) -> str:
        return self._client.holder

    has_session = False

    def wants_own_session(self, answers: Collection[str]) -> bool:
        # As its other requests have, which cannot be known to be of somebody who listens.
        return self._client.wants_own_session(answers)

    async def serve(self, ctx: RequestContext) -> JsonObject:
        """Answers the request with the stream, until either side ends it."""
        channel = inbound(ctx).channel
        meta = {SUBSCRIPTION_ID: channel.request_id}
        await channel.notify(ACKNOWLEDGED, {"notifications": self._wanted, "_meta": meta})
        while (message := await self._unread.get()) is not None:
            method, params = message
            await channel.notify(method, {**params, "_meta": meta})
        return {"resultType": "complete", "_meta": meta}

    async def tell(self, method: str, params: JsonObject | None) -> None:
        said: JsonObject = {} if method in LISTS else {"uri": str((params or {})["uri"])}
        wanted = WANTED[method] in self._wanted if method in LISTS else said["uri"] in self.uris
        if not wanted or not self._is_open:
            return
        if self._unread.qsize() < MAX_UNREAD:
            self._unread.put_nowait((method, said))
        else:
            logger.warning("a stream of %s ends: its client does not read", self.principal.id)
            self.close()

    def close(self) -> None:
        """Ends the stream in good order, after all that was said."""
        if self._is_open:
            self._is_open = False
            self._unread.put_nowait(None)


Listener = SessionListener | StreamListener
