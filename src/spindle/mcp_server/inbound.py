"""The facts about a request that every transport knows and passes to the handlers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from spindle.mcp_imports import ServerRequestContext

if TYPE_CHECKING:
    from spindle.domain.identity import Principal
    from spindle.mcp_imports import Connection, DispatchContext, TransportContext

RequestContext: TypeAlias = ServerRequestContext[Any, Any]

LOG_LEVEL = "spindle.log_level"
"""The key under which a connection of the handshake era remembers the level that its client set."""


@dataclass(frozen=True, slots=True)
class Inbound:
    """The connection, principal and channel of a request."""

    connection: Connection
    principal: Principal
    channel: DispatchContext[TransportContext]
    """The channel to the client for this request."""
    scope: Mapping[str, Any] | None = None
    """Of the HTTP request; None over stdio."""


def inbound(ctx: RequestContext) -> Inbound:
    """The facts that the transport attached to a request."""
    return cast(Inbound, ctx.request)


def is_modern(ctx: RequestContext) -> bool:
    """True if the request is of the protocol version 2026-07-28 or later."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
