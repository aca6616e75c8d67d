"""Listening to a server of 2026-07-28, which tells of changes only where somebody asked to be told."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

from spindle.sources.mcp.subscription import ChangeSubscription, OnEvent

if TYPE_CHECKING:
    from spindle.domain.json_schema import JsonObject
    from spindle.sources.mcp.client import McpClient

_ids = itertools.count(1)


class SubscriptionLostError(Exception):
    """The server has ended the subscription, without saying that it did so in good order."""


async def listen(
    client: McpClient, wanted: JsonObject, on_ready: Callable[[], None], on_event: OnEvent
) -> None:
    """Hears of what is wanted until the server ends it in good order. Calls `on_ready` once the server has
    agreed. Raises McpError if it refuses or the connection is lost, SubscriptionLostError if it gives up."""
    request_id = f"listen-{next(_ids)}"
    subscription = client.subscriptions[request_id] = ChangeSubscription(on_ready, on_event)
    request = asyncio.ensure_future(
        client.request("subscriptions/listen", {"notifications": wanted}, {"request_id": request_id})
    )
    try:
        await asyncio.wait({request, subscription.lost}, return_when=asyncio.FIRST_COMPLETED)
        if not request.done():
            raise SubscriptionLostError
        request.result()
    finally:
        del client.subscriptions[request_id]
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
