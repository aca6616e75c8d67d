"""The answer to a client's first request: whom it speaks to, and how the tools are meant to be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spindle.serving.instruction import joined

if TYPE_CHECKING:
    from spindle.domain.identity import Principal
    from spindle.domain.json_schema import JsonObject
    from spindle.mcp_server.server import CatalogServer

OPENING = frozenset({"initialize", "server/discover"})
"""The requests by which a client learns whom it speaks to."""


async def introduced(catalog: CatalogServer, principal: Principal, opening: JsonObject) -> JsonObject:
    """The answer with what the sources of the tools that this principal sees say of their use."""
    states = await catalog.app.catalog.states()
    said = {name: state.instructions for name, state in states.items() if state.instructions}
    if not said:
        return opening
    seen = {item.source for item in await catalog.listing.visible(principal)}
    text = joined(catalog.kernel.instructions, {name: said[name] for name in said if name in seen})
    return {**opening, "instructions": text} if text else opening
