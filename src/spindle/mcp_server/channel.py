"""One request of a client while it is served, as the SDK's handlers see it; the same over any transport."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import anyio
from mcp_types import RequestId

from spindle.domain.json_schema import JsonObject
from spindle.mcp_imports import (
    CallOptions,
    ServerMessageMetadata,
    TransportContext,
    progress_token_from_params,
)
from spindle.mcp_protocol.errors import NoWayBackError

if TYPE_CHECKING:
    from spindle.mcp_server.inbound import Inbound

logger = logging.getLogger("spindle.serve")

Send = Callable[[JsonObject], Awaitable[None]]
"""Sends one JSON-RPC message to the client, as part of what answers the request."""
Ask = Callable[[str, Mapping[str, Any] | None, Send], Awaitable[JsonObject]]
"""Makes a request of the client, sent in the given way, and waits for its answer."""


class RequestChannel:
    """Satisfies the SDK's `DispatchContext`."""

    is_cancelled = False
    """True once the client has cancelled the request."""
    facts: Inbound | None = None
    """All else that the handlers are told."""
    _cancelled: anyio.Event | None = None

    def __init__(
        self,
        kind: str,
        request_id: RequestId | None,
        params: Mapping[str, Any] | None,
        send: Send,
        ask: Ask | None = None,
    ) -> None:
        self.request_id = request_id
        self.can_send_request = ask is not None
        self._kind = kind
        self._token = progress_token_from_params(params) if params and "_meta" in params else None
        self._send = send
        self._ask = ask

    # Made when they are asked for: the way of a call does without.

    @property
    def transport(self) -> TransportContext:
        return TransportContext(kind=self._kind, can_send_request=self.can_send_request)

    @property
    def message_metadata(self) -> ServerMessageMetadata:
        return ServerMessageMetadata(can_send_request=self.can_send_request, request_context=self.facts)

    @property
    def cancel_requested(self) -> anyio.Event:
        if self._cancelled is None:
            self._cancelled = anyio.Event()
            if self.is_cancelled:
                self._cancelled.set()
        return self._cancelled

    def cancel(self) -> None:
        """Notes that the client has cancelled the request."""
        self.is_cancelled = True
        if self._cancelled is not None:
            self._cancelled.set()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> JsonObject:
        if self._ask is None:
            raise NoWayBackError(method)
        return await self._ask(method, params, self._send)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
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
