"""Follows changes of a server's lists. Older servers tell every connected client; those of 2026-07-28 tell
only clients that listen."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from mcp_types import CONNECTION_CLOSED
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from spindle.mcp_imports import (
    ClientSession,
    MCPError,
    PromptsListChanged,
    ResourcesListChanged,
    ServerEvent,
    SubscriptionLost,
    ToolsListChanged,
    listen,
)
from spindle.ports.source import Notice
from spindle.sources.mcp.answers import LinkLostError
from spindle.sources.mcp.exchange import CallExchange, current_exchange

logger = logging.getLogger("spindle.mcp")

FIRST_WAIT = 1.0
LONGEST_WAIT = 60.0


async def follow_changes(client: ClientSession, on_change: Callable[[], None], tell: Notice) -> None:
    """Listen for as long as the session lives, again and again where the server ends it."""
    capabilities = client.server_capabilities
    if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or capabilities is None:
        return
    tools = bool(capabilities.tools and capabilities.tools.list_changed)
    prompts = bool(capabilities.prompts and capabilities.prompts.list_changed)
    resources = bool(capabilities.resources and capabilities.resources.list_changed)
    if not (tools or prompts or resources):
        return

    def heard(event: ServerEvent | None) -> None:
        if event is None or isinstance(event, ToolsListChanged):
            on_change()
        if event is None or isinstance(event, PromptsListChanged):
            tell("notifications/prompts/list_changed", {})
        if event is None or isinstance(event, ResourcesListChanged):
            tell("notifications/resources/list_changed", {})

    wait, missed = FIRST_WAIT, False
    while True:
        exchange = CallExchange()
        current_exchange.set(exchange)
        try:
            async with listen(
                client,
                tools_list_changed=tools,
                prompts_list_changed=prompts,
                resources_list_changed=resources,
            ) as subscription:
                if missed:
                    heard(None)  # something may have changed while nobody listened
                async for event in subscription:
                    wait = FIRST_WAIT
                    heard(event)
        except (SubscriptionLost, MCPError) as error:
            reason = error if isinstance(error, MCPError) else error.__cause__
            if not _may_come_back(reason, exchange):
                logger.debug("no more notices of changes: %r", reason)
                return
        missed = True
        await asyncio.sleep(wait)
        wait = min(2 * wait, LONGEST_WAIT)


def _may_come_back(reason: BaseException | None, exchange: CallExchange) -> bool:
    if isinstance(reason, LinkLostError) or not isinstance(reason, MCPError):
        return False
    return reason.error.code == CONNECTION_CLOSED or (exchange.status or 0) >= 500
