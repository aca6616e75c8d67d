"""The parameters of requests to a server, as they leave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from spindle.domain import trail
from spindle.domain.json_schema import is_object
from spindle.mcp_protocol.names import CLIENT_CAPABILITIES
from spindle.sources.mcp.peers import QUESTIONS
from spindle.telemetry import tracing

if TYPE_CHECKING:
    from spindle.domain.json_schema import JsonObject
    from spindle.sources.mcp.exchange import CallExchange


def as_sent(params: Mapping[str, Any] | None, exchange: CallExchange | None) -> JsonObject:
    """The parameters of a request as they leave: for the caller of a call, and with the trail so far."""
    narrowed = as_the_caller(params, exchange) or {}
    way = trail.current()
    return dict(tracing.sent_on(trail.with_meta(narrowed, way) if way else narrowed))


def as_the_caller(
    params: Mapping[str, Any] | None, exchange: CallExchange | None
) -> Mapping[str, Any] | None:
    """The parameters of a request of 2026-07-28, which says each time what its sender can be asked: that is
    what whoever made the call can be asked, not what we could pass on to others."""
    meta = (params or {}).get("_meta")
    if params is None or exchange is None or exchange.call is None or not is_object(meta):
        return params
    ours = meta.get(CLIENT_CAPABILITIES)
    if not is_object(ours):
        return params
    peer = exchange.call.peer
    # Where nobody waits for the answer, a pause does.
    by_pause = {"elicitation": ours.get("elicitation")} if exchange.call.can_pause else {}
    theirs = peer.capabilities if peer is not None else by_pause
    declared = {
        key: theirs.get(key) if key in QUESTIONS else value
        for key, value in ours.items()
        if key not in QUESTIONS or theirs.get(key) is not None
    }
    return {**params, "_meta": {**meta, CLIENT_CAPABILITIES: declared}}
