"""Requests of MCP that are not calls of tools, passed on as they are."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from spindle.mcp_protocol import models, names
from spindle.sources.mcp.changes import FIRST_WAIT, LONGEST_WAIT
from spindle.sources.mcp.listening import SubscriptionLostError, listen
from spindle.sources.mcp.subscription import URIS

if TYPE_CHECKING:
    from spindle.domain.json_schema import JsonObject
    from spindle.ports.source import Notice
    from spindle.sources.mcp.client import McpClient


async def send(client: McpClient, method: str, params: JsonObject) -> JsonObject:
    """Sends a request as it is, and returns the result as it is. Raises ValidationError for a result that is
    not as the protocol has it."""
    result = await client.request(method, params)
    ttl = result.get("ttlMs")
    if isinstance(ttl, (int, float)) and ttl < 0:
        result["ttlMs"] = 0  # as the protocol wants clients to read it
    return await models.checked_result(method, client.spoken, result)


def offers_of(client: McpClient) -> frozenset[str]:
    """The features besides tools that the server offers."""
    found = {name for name in ("resources", "prompts", "completions") if client.offers(name)}
    return frozenset(found | ({"subscribe"} if client.offers("resources", "subscribe") else set[str]()))


async def watch(
    client: McpClient, uri: str, tell: Notice, watched: Counter[str], on_ready: Callable[[], None] | None
) -> None:
    """Hear of changes of a resource until cancelled, in the way of the session's era. `watched` counts who
    watches what on a session of the handshake era, which the server knows only once."""
    ready = on_ready or (lambda: None)
    if not client.is_modern:
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

    def heard(method: str, params: JsonObject) -> None:
        nonlocal wait
        wait = FIRST_WAIT
        tell(names.RESOURCE_UPDATED, {"uri": uri})

    def agreed() -> None:
        ready()
        if missed:
            tell(names.RESOURCE_UPDATED, {"uri": uri})  # perhaps, while nobody listened

    wait, missed = FIRST_WAIT, False
    while True:
        with contextlib.suppress(SubscriptionLostError):
            await listen(client, {URIS: [uri]}, agreed, heard)
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
