"""A line for each request: who asked for what, how it was answered, and how long that took."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from spindle.domain.identity import Principal
from spindle.runs.waits import shown_path
from spindle.serving.access import ANYBODY, PRINCIPAL

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

logger = logging.getLogger("spindle.access")

MAX_PATH = 500


class AccessLog:
    """Logs each request that the app inside answers. Headers and bodies are never logged."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, size, began = 0, 0, time.perf_counter()

        async def counted(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, counted)
        finally:
            log_request(scope, status, size, time.perf_counter() - began)


def log_request(scope: Scope, status: int, size: int, seconds: float) -> None:
    """Logs one request. A status of 0 means that the client went away before it was answered."""
    principal, client = scope.get(PRINCIPAL), scope.get("client")
    who = principal.id if isinstance(principal, Principal) and principal is not ANYBODY else ""
    address = str(client[0]) if client else ""
    what = _named_method(scope)
    path = shown_path(scope["path"])[:MAX_PATH]
    fields: dict[str, Any] = {
        "address": address,
        "principal": who,
        "method": scope["method"],
        "path": path,
        "status": status,
        "bytes": size,
        "ms": round(seconds * 1000, 2),
    } | ({"mcp": what} if what else {})
    text = f'{address or "-"} {who or "-"} "{scope["method"]} {path}" {status} {size} {seconds * 1000:.1f}ms'
    logger.info("%s", f"{text} {what}" if what else text, extra={"fields": fields})


def _named_method(scope: Scope) -> str:
    """The method and name of an MCP request, where its headers say so: 2026-07-28."""
    method = name = b""
    for header, value in scope["headers"]:
        if header == b"mcp-method":
            method = value
        elif header == b"mcp-name":
            name = value
    return (method + (b" " + name if name else b""))[:MAX_PATH].decode("latin-1")
