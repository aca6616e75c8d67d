"""Follows changes of a server's lists. Older servers tell every connected client; those of 2026-07-28 tell
only clients that listen."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from spindle.domain.json_schema import JsonObject
from spindle.mcp_protocol.errors import McpError
from spindle.mcp_protocol.names import CONNECTION_CLOSED, TOOLS_CHANGED
from spindle.ports.source import Notice
from spindle.sources.mcp.answers import LinkLostError
from spindle.sources.mcp.client import McpClient
from spindle.sources.mcp.exchange import CallExchange, current_exchange
from spindle.sources.mcp.listening import SubscriptionLostError, listen
from spindle.sources.mcp.subscription import FLAGS

logger = logging.getLogger("spindle.mcp")

FIRST_WAIT = 1.0
LONGEST_WAIT = 60.0


async def follow_changes(client: McpClient, on_change: Callable[[], None], tell: Notice) -> None:
    """Listen for as long as the session lives, again and again where the server ends it."""
    told = [method for method in FLAGS if client.offers(method.split("/")[1], "listChanged")]
    if not client.is_modern or not told:
        return

    def changed(method: str) -> None:
        if method == TOOLS_CHANGED:
            on_change()
        elif method in FLAGS:
            tell(method, {})

    def heard(method: str, params: JsonObject) -> None:
        nonlocal wait
        wait = FIRST_WAIT
        changed(method)

    def ready() -> None:
        if missed:
            for method in FLAGS:  # something may have changed while nobody listened
                changed(method)

    wait, missed = FIRST_WAIT, False
    while True:
        exchange = CallExchange()
        current_exchange.set(exchange)
        try:
            await listen(client, {FLAGS[method]: True for method in told}, ready, heard)
        except (SubscriptionLostError, McpError) as error:
            if not _may_come_back(error, exchange):
                logger.debug("no more notices of changes: %r", error)
                return
        missed = True
        await asyncio.sleep(wait)
        wait = min(2 * wait, LONGEST_WAIT)


def _may_come_back(error: Exception, exchange: CallExchange) -> bool:
    if isinstance(error, LinkLostError) or not isinstance(error, McpError):
        return False
    return error.code == CONNECTION_CLOSED or (exchange.status or 0) >= 500
