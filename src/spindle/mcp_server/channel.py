"""The way to the client of a request while that is served; the same over any transport."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from spindle.domain.json_schema import JsonObject, is_object
from spindle.mcp_protocol.errors import NoWayBackError, RequestId, as_request_id

if TYPE_CHECKING:
    from spindle.mcp_server.inbound import Inbound

REQUEST_CANCELLED = -32800

logger = logging.getLogger("spindle.serve")

Send = Callable[[JsonObject], Awaitable[None]]
"""Sends one JSON-RPC message to the client, as part of what answers the request."""
Ask = Callable[[str, Mapping[str, Any] | None, Send], Awaitable[JsonObject]]
"""Makes a request of the client, sent in the given way, and waits for its answer."""


class RequestChannel:
    """Tells the client of a request something meanwhile, or asks it."""

    is_cancelled = False
    """True once the client has cancelled the request."""
    facts: Inbound | None = None
    """All else that the handlers are told."""

    def __init__(
        self,
        request_id: RequestId | None,
        params: Mapping[str, Any] | None,
        send: Send,
        ask: Ask | None = None,
    ) -> None:
        self.request_id = request_id
        self.can_send_request = ask is not None
        meta = params.get("_meta") if params else None
        self._token = as_request_id(meta.get("progressToken")) if is_object(meta) else None
        self._send = send
        self._ask = ask

    def cancel(self) -> None:
        """Notes that the client has cancelled the request."""
        self.is_cancelled = True

    async def send_raw_request(self, method: str, params: Mapping[str, Any] | None) -> JsonObject:
        if self._ask is None:
            raise NoWayBackError(method)
        return await self._ask(method, params, self._send)

    async def notify(self, method: str, params: Mapping[str, Any] | None) -> None:
        message: JsonObject = {"jsonrpc": "2.0", "method": method}
        await self._send(message | ({"params": dict(params)} if params is not None else {}))

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        if self._token is None:
            return
        params: JsonObject = {"progressToken": self._token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        await self.notify("notifications/progress", params)


def error_message(request_id: RequestId | None, code: int, message: str, data: Any = None) -> JsonObject:
    """A JSON-RPC message with an error."""
    error: JsonObject = {"code": code, "message": message}
    return {"jsonrpc": "2.0", "id": request_id, "error": error | ({} if data is None else {"data": data})}


def cancelled_message(request_id: RequestId) -> JsonObject:
    """The answer to a request that its client has cancelled: only an answer ends one of the handshake era."""
    return error_message(request_id, REQUEST_CANCELLED, "Request cancelled")
