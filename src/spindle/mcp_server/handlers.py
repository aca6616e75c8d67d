"""Our handlers as the SDK's server calls them: parameters and results as they are on the wire."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from spindle.errors import Interruption, SpindleError
from spindle.mcp_server.client_peer import refusal
from spindle.mcp_server.inbound import RequestContext, inbound, is_modern

if TYPE_CHECKING:
    from spindle.domain.identity import Principal
    from spindle.domain.json_schema import JsonObject
    from spindle.serving.audit import AuditLog

CACHEABLE = frozenset(
    {"tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"}
)
ACTIONS = {
    "tools/list": "list.tools",
    "resources/list": "list.resources",
    "resources/templates/list": "list.templates",
    "prompts/list": "list.prompts",
    "resources/read": "read",
    "resources/subscribe": "subscribe",
    "prompts/get": "prompt",
}
"""By method, the action of those requests, besides calls, that the audit log has."""

Handler = Callable[[RequestContext, "Principal", "JsonObject"], Awaitable["JsonObject"]]
"""Answers a request of a principal, given its parameters."""


def audited(handler: Handler, audit: AuditLog) -> Handler:
    """The handler, whose requests are noted in the audit log."""

    async def noted(ctx: RequestContext, principal: Principal, params: JsonObject) -> JsonObject:
        target = str(params.get("uri") or params.get("name") or "")
        try:
            result = await handler(ctx, principal, params)
        except (SpindleError, Interruption) as error:
            audit.did(principal, ACTIONS[ctx.method], target, error)
            raise
        audit.did(principal, ACTIONS[ctx.method], target)
        return result

    return noted


def raw(handler: Handler) -> Callable[[RequestContext, Any], Awaitable[JsonObject]]:
    """A handler that takes the parameters as they came. The SDK has checked them against the version's
    own schema before."""

    async def handle(ctx: RequestContext, _typed: Any) -> JsonObject:
        try:
            result = await handler(ctx, inbound(ctx).principal, dict(ctx.params or {}))
        except (SpindleError, Interruption) as error:
            raise refusal(ctx, error) from error
        return _completed(ctx.method, result) if is_modern(ctx) else result

    return handle


def _completed(method: str, result: JsonObject) -> JsonObject:
    """The result with the fields that 2026-07-28 requires."""
    if result.get("resultType", "complete") != "complete":
        return result
    # Clients may keep nothing unasked: the catalog changes when it likes, and each sees its own.
    caching = {"ttlMs": 0, "cacheScope": "private"} if method in CACHEABLE else {}
    return {"resultType": "complete", **caching, **result}
