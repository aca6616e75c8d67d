"""A client's connection: what was agreed on, what the client said of itself, and the way to it outside of its
requests. In 2026-07-28 each request is a connection of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from spindle.domain.json_schema import JsonObject
from spindle.mcp_protocol.messages import CAPABILITIES, IMPLEMENTATION, plainly
from spindle.mcp_protocol.names import LATEST_HANDSHAKE


class Outbound(Protocol):
    """The way to a client outside of its requests."""

    async def notify(self, method: str, params: Mapping[str, Any] | None) -> None: ...


class ClientConnection:
    """One of the handshake era, until it is said otherwise."""

    session_id: str | None = None
    client_params: JsonObject | None = None
    """The client's description of itself; None if it has not given any."""
    client_capabilities: JsonObject | None = None
    is_initialized = False
    """True once the client said that it is ready to be told of changes."""

    def __init__(self, outbound: Outbound | None = None, version: str = LATEST_HANDSHAKE) -> None:
        self.protocol_version = version
        self.state: dict[str, Any] = {}
        self._outbound = outbound

    @classmethod
    def from_envelope(cls, version: str, info: Any, capabilities: Any) -> ClientConnection:
        """That of a request of 2026-07-28, which says who its client is. What is malformed counts as unsaid;
        the kernel refuses the request for it."""
        made = cls(version=version)
        made.client_capabilities = plainly(CAPABILITIES, capabilities)
        info = plainly(IMPLEMENTATION, info)
        if info is not None and made.client_capabilities is not None:
            described = {"capabilities": made.client_capabilities, "clientInfo": info}
            made.client_params = {"protocolVersion": version, **described}
        made.is_initialized = True
        return made

    def agree(self, version: str, client: JsonObject) -> None:
        """The handshake came to this."""
        self.protocol_version = version
        self.client_params = client
        self.client_capabilities = client["capabilities"]

    @property
    def takes_requests(self) -> bool:
        return self.client_params is not None or self.is_initialized

    async def notify(self, method: str, params: Mapping[str, Any] | None) -> None:
        if self._outbound is not None:
            await self._outbound.notify(method, params)
