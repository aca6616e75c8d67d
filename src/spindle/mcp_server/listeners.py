"""The clients that are told of changes: sessions of the handshake era, streams that a client of 2026-07-28
listens on. Each is told only while the token that it showed is good."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from spindle.calls.relay import UPDATED
from spindle.mcp_imports import (
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)

if TYPE_CHECKING:
    from mcp_types import SubscriptionsListenRequestParams

    from spindle.domain.identity import Principal
    from spindle.domain.json_schema import JsonObject
    from spindle.mcp_imports import Connection, ServerEvent
    from spindle.mcp_server.inbound import SdkContext

_EVENTS: dict[str, Callable[[], ServerEvent]] = {
    "notifications/tools/list_changed": ToolsListChanged,
    "notifications/prompts/list_changed": PromptsListChanged,
    "notifications/resources/list_changed": ResourcesListChanged,
}
LISTS = frozenset(_EVENTS)


class SessionListener:
    """A session of the handshake era, by its connection. `scope` gives the request whose stream is open."""

    def __init__(
        self,
        connection: Connection,
        principal: Principal,
        scope: Callable[[], Mapping[str, Any] | None],
        close: Callable[[], None],
    ) -> None:
        self.connection = connection
        self.principal = principal
        self.scope = scope
        self.close = close

    async def tell(self, method: str, params: JsonObject | None) -> None:
        if self.connection.initialized.is_set():
            await self.connection.notify(method, params)


class StreamListener:
    """A stream that a client listens on. It is also the bus of the SDK's handler, so that each stream hears
    what is meant for it alone."""

    def __init__(self, principal: Principal, scope: Mapping[str, Any] | None) -> None:
        self.principal = principal
        self.scope = lambda: scope
        self._handler = ListenHandler(self)
        self._deliver: Callable[[ServerEvent], None] | None = None

    async def serve(self, ctx: SdkContext, params: SubscriptionsListenRequestParams) -> Any:
        """Answers the request with the stream, until either side ends it."""
        return await self._handler(ctx, params)

    async def tell(self, method: str, params: JsonObject | None) -> None:
        event = ResourceUpdated(uri=str((params or {})["uri"])) if method == UPDATED else _EVENTS[method]()
        await self.publish(event)

    def close(self) -> None:
        """Ends the stream in good order."""
        self._handler.close()

    # --- the bus

    async def publish(self, event: ServerEvent) -> None:
        if self._deliver is not None:
            self._deliver(event)

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        self._deliver = listener

        def unsubscribe() -> None:
            self._deliver = None

        return unsubscribe


Listener = SessionListener | StreamListener
