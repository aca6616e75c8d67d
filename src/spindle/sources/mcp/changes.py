"""Following changes of a server's tool list. Older servers tell everybody who is connected; those of
2026-07-28 tell only whoever listens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from mcp.client.session import ClientSession
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from spindle.sources.mcp.dispatcher import LinkLostError
from spindle.sources.mcp.exchange import Exchange, current_exchange

logger = logging.getLogger("spindle.mcp")

FIRST_WAIT = 1.0
LONGEST_WAIT = 60.0


async def follow_changes(client: ClientSession, on_change: Callable[[], None]) -> None:
    """Listen for as long as the session lives, again and again where the server ends it."""
    capabilities = client.server_capabilities
    if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or capabilities is None:
        return
    if capabilities.tools is None or not capabilities.tools.list_changed:
        return
    wait, missed = FIRST_WAIT, False
    while True:
        exchange = Exchange()
        current_exchange.set(exchange)
        try:
            async with listen(client, tools_list_changed=True) as subscription:
                if missed:
                    on_change()  # something may have changed while nobody listened
                async for _ in subscription:
                    wait = FIRST_WAIT
                    on_change()
        except (SubscriptionLost, MCPError) as error:
            reason = error if isinstance(error, MCPError) else error.__cause__
            if not _may_come_back(reason, exchange):
                logger.debug("no more notices of changes: %r", reason)
                return
        missed = True
        await asyncio.sleep(wait)
        wait = min(2 * wait, LONGEST_WAIT)


def _may_come_back(reason: BaseException | None, exchange: Exchange) -> bool:
    if isinstance(reason, LinkLostError) or not isinstance(reason, MCPError):
        return False
    return reason.error.code == CONNECTION_CLOSED or (exchange.status or 0) >= 500
