"""Agreeing with a server on a version of the protocol."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from spindle.mcp_protocol.errors import McpError
from spindle.mcp_protocol.names import LATEST_MODERN, UNSUPPORTED_PROTOCOL_VERSION
from spindle.sources.mcp.answers import LinkLostError
from spindle.sources.mcp.client import AgainstProtocolError
from spindle.sources.mcp.convert import loop_in
from spindle.sources.mcp.exchange import CallExchange, current_exchange

if TYPE_CHECKING:
    from spindle.sources.mcp.client import McpClient

REFUSES_EVERYTHING = frozenset({401, 403, 407, 429, 503})


async def negotiate(client: McpClient, protocol: str, patience: float) -> None:
    """The newest era both sides speak: ask in the modern way, fall back to the handshake."""
    if protocol == "handshake":
        await client.initialize()
        return
    try:
        # Some older servers never answer what they do not know.
        async with asyncio.timeout(patience if protocol == "auto" else None):
            await client.discover()
    except (McpError, AgainstProtocolError, TimeoutError) as refusal:
        if protocol == LATEST_MODERN or _is_final(refusal):
            raise
        try:
            await client.initialize()
        except McpError as error:
            if error.code != UNSUPPORTED_PROTOCOL_VERSION:
                raise
            # A server slow to start answered the first question after we stopped waiting for it.
            await client.discover()


def _is_final(refusal: Exception) -> bool:
    """True if asking in the older way would fail the same way."""
    exchange = current_exchange.get() or CallExchange()
    return (
        isinstance(refusal, LinkLostError)
        or (isinstance(refusal, McpError) and loop_in(refusal) is not None)
        or exchange.failure is not None
        or exchange.status in REFUSES_EVERYTHING
    )
