"""Requests of MCP that are not calls of tools, passed on as they are."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mcp_types import Request
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import RootModel

from spindle.mcp_imports import MCPError, SubscriptionLost, listen
from spindle.sources.mcp.changes import FIRST_WAIT, LONGEST_WAIT

if TYPE_CHECKING:
    from spindle.domain.json_schema import JsonObject
    from spindle.mcp_imports import ClientSession
    from spindle.ports.source import Notice


class _Anything(RootModel[dict[str, Any]]):
    """A result that is not looked into."""


async def send(client: ClientSession, method: str, params: JsonObject) -> JsonObject:
    """Sends a request as it is, and returns the result as it is."""
    request = Request[dict[str, Any], str](method=method, params=params)
    return (await client.send_request(request, _Anything)).root


def offers_of(client: ClientSession) -> frozenset[str]:
    """The features besides tools that the server offers."""
    capabilities = client.server_capabilities
    if capabilities is None:
        return frozenset()
    found = {
        "resources": capabilities.resources is not None,
        "prompts": capabilities.prompts is not None,
        "completions": capabilities.completions is not None,
        "subscribe": capabilities.resources is not None and bool(capabilities.resources.subscribe),
    }
    return frozenset(name for name, offered in found.items() if offered)


async def watch(
    client: ClientSession, uri: str, tell: Notice, watched: Counter[str], on_ready: Callable[[], None] | None
) -> None:
    """Hear of changes of a resource until cancelled, in the way of the session's era. `watched` counts who
    watches what on a session of the handshake era, which the server knows only once."""
    ready = on_ready or (lambda: None)
    if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        watched[uri] += 1
        try:
            await send(client, "resources/subscribe", {"uri": uri})
            ready()
            await asyncio.get_running_loop().create_future()
        finally:
            watched[uri] -= 1
            if not watched[uri]:
                del watched[uri]
                # Whoever stops watching does not wait for the answer, nor for a server that is gone.
                _forget(asyncio.create_task(send(client, "resources/unsubscribe", {"uri": uri})))
        return
    wait, missed = FIRST_WAIT, False
    while True:
        try:
            async with listen(client, resource_subscriptions=[uri]) as subscription:
                ready()
                if missed:
                    tell("notifications/resources/updated", {"uri": uri})  # perhaps, while nobody listened
                async for _ in subscription:
                    wait = FIRST_WAIT
                    tell("notifications/resources/updated", {"uri": uri})
        except SubscriptionLost as lost:
            if isinstance(lost.__cause__, MCPError):
                raise lost.__cause__ from None
        missed = True
        await asyncio.sleep(wait)
        wait = min(2 * wait, LONGEST_WAIT)


_forgotten: set[asyncio.Task[Any]] = set()


def _forget(task: asyncio.Task[Any]) -> None:
    _forgotten.add(task)

    def done(finished: asyncio.Task[Any]) -> None:
        _forgotten.discard(finished)
        if not finished.cancelled():
            finished.exception()

    task.add_done_callback(done)
