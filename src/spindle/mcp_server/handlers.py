"""Our handlers as the kernel calls them: audited, watched, and their errors as the protocol's."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from spindle.errors import Interruption, SpindleError
from spindle.mcp_server.client_peer import refusal
from spindle.mcp_server.inbound import RequestContext, inbound, is_modern
from spindle.telemetry import metrics, tracing

if TYPE_CHECKING:
    from spindle.domain.identity import Principal
    from spindle.domain.json_schema import JsonObject
    from spindle.mcp_server.kernel import Answer
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


def audited(handler: Handler, method: str, audit: AuditLog | None) -> Handler:
    """The handler of a method, whose requests are noted in the audit log. Calls are noted elsewhere."""
    if audit is None or method not in ACTIONS:
        return handler

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


def watched(handler: Handler) -> Handler:
    """The handler, whose requests are spans and are counted. As it is where nobody wants to know."""
    if tracing.active is None and metrics.active is None:
        return handler

    async def seen(ctx: RequestContext, principal: Principal, params: JsonObject) -> JsonObject:
        facts, began, problem = inbound(ctx), time.perf_counter(), ""
        name = str(params.get("name") or params.get("uri") or "")
        told: JsonObject = {
            "mcp.protocol.version": ctx.protocol_version,
            "mcp.session.id": facts.connection.session_id,
            "jsonrpc.request.id": str(getattr(facts.channel, "request_id", "") or "") or None,
        }
        work = handler(ctx, principal, params)
        try:
            result = await tracing.served(ctx.method, name, ctx.meta, facts.scope, told, work)
            problem = "tool_error" if result.get("isError") is True else ""
            return result
        except BaseException as error:
            problem = str(getattr(error, "category", type(error).__name__))
            raise
        finally:
            if metrics.active is not None:
                metrics.active.operated(ctx.method, time.perf_counter() - began, problem)

    return seen


def answering(handler: Handler) -> Answer:
    """The handler as the kernel calls it, which has checked the parameters before."""

    async def handle(ctx: RequestContext) -> JsonObject:
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
