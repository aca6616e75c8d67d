"""The facts about a request that every transport knows and passes to the handlers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from spindle.domain.json_schema import JsonObject, is_object
from spindle.mcp_protocol.names import MODERN_VERSIONS

if TYPE_CHECKING:
    from spindle.domain.identity import Principal
    from spindle.mcp_protocol.errors import RequestId
    from spindle.mcp_server.connection import ClientConnection


class ClientSide(Protocol):
    """The client of a request, as far as it has told about itself."""

    @property
    def client_capabilities(self) -> JsonObject | None: ...
    @property
    def can_send_request(self) -> bool: ...


class Channel(Protocol):
    """The way to the client of a request while that is served."""

    @property
    def request_id(self) -> RequestId | None: ...
    @property
    def can_send_request(self) -> bool: ...
    async def send_raw_request(self, method: str, params: Mapping[str, Any] | None) -> JsonObject: ...
    async def notify(self, method: str, params: Mapping[str, Any] | None) -> None: ...
    async def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None: ...


class RequestContext(Protocol):
    """A request as our handlers see it."""

    @property
    def session(self) -> ClientSide: ...
    @property
    def protocol_version(self) -> str: ...
    @property
    def method(self) -> str: ...
    @property
    def params(self) -> Mapping[str, Any] | None: ...
    @property
    def meta(self) -> Mapping[str, object] | None: ...
    @property
    def request(self) -> Any: ...


LOG_LEVEL = "spindle.log_level"
"""The key under which a connection of the handshake era remembers the level that its client set."""
WATCHES = "spindle.watches"
"""The key under which it remembers that its client has subscribed to a resource."""
KEPT = frozenset({LOG_LEVEL, WATCHES})
"""The keys of what servers of the handshake era keep for a client."""


@dataclass(slots=True)
class Inbound:
    """The connection, principal and channel of a request."""

    connection: ClientConnection
    principal: Principal
    channel: Channel
    """The channel to the client for this request."""
    scope: Mapping[str, Any] | None = None
    """Of the HTTP request; None over stdio."""
    pause: str | None = None
    """The token of the pause at which the run of a request goes on that another process had begun."""


def holder_of(connection: ClientConnection, principal: Principal) -> str:
    """Names the client among those for whom sources keep a session: the session of the handshake era, or,
    where every request stands alone, its principal."""
    return principal.holder if connection.session_id is None else f"session {connection.session_id}"


def inbound(ctx: RequestContext) -> Inbound:
    """The facts that the transport attached to a request."""
    return cast(Inbound, ctx.request)


def is_modern(ctx: RequestContext) -> bool:
    """True if the request is of the protocol version 2026-07-28 or later."""
    return ctx.protocol_version in MODERN_VERSIONS


def is_capable(capabilities: JsonObject | None, method: str, params: Any = None) -> bool:
    """True if the client declared that it answers this request."""
    if capabilities is None:
        return False
    match method:
        case "elicitation/create":
            found: JsonObject | None = capabilities.get("elicitation")
            if found is None:
                return False
            wants_url = is_object(params) and params.get("mode") == "url"
            # Before there were modes, the capability was an empty object and meant forms.
            return "url" in found if wants_url else "form" in found or "url" not in found
        case "sampling/createMessage":
            return "sampling" in capabilities
        case "roots/list":
            return "roots" in capabilities
        case _:
            return False
