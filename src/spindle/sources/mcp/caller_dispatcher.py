"""The SDK's dispatcher, which carries Streamable HTTP, acting for the caller of a call and within bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_types import CONNECTION_CLOSED, RequestId

from spindle.mcp_imports import CallOptions, JSONRPCDispatcher, MCPError, ProgressFnT, coerce_request_id
from spindle.sources.mcp.dispatcher import LinkLostError
from spindle.sources.mcp.exchange import CallExchange, current_exchange, set_aside
from spindle.sources.mcp.peers import as_sent

MAX_SERVER_REQUESTS = 64


class CallerDispatcher(JSONRPCDispatcher[Any]):
    """The SDK's dispatcher, acting for the caller of a call. A server that asks faster than it takes our
    answers, or reports progress faster than anybody reads it, takes no more room for that."""

    _answering = 0

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        *,
        _related_request_id: RequestId | None = None,
    ) -> dict[str, Any]:
        sent = as_sent(params) or None
        if opts and (on_progress := opts.get("on_progress")) is not None:
            opts = {**opts, "on_progress": NewestProgress(on_progress)}
        try:
            answer = await super().send_raw_request(
                method, sent, opts, _related_request_id=_related_request_id
            )
        except MCPError as error:
            if error.code == CONNECTION_CLOSED and self._got_nothing():
                raise LinkLostError(error.error.message, sent=True) from error
            raise
        return set_aside(answer)

    def _got_nothing(self) -> bool:
        """True if no answer can have come: the code for a lost connection is one that servers send too."""
        exchange = current_exchange.get() or CallExchange()
        return self._closed or (exchange.status is None and exchange.failure is None)

    async def _handle_request(self, req: Any, dctx: Any, scope: Any, on_request: Any) -> None:
        if self._answering >= MAX_SERVER_REQUESTS:
            self._in_flight.pop(coerce_request_id(req.id), None)
            return
        self._answering += 1
        try:
            await super()._handle_request(req, dctx, scope, on_request)
        finally:
            self._answering -= 1


class NewestProgress:
    """Passes progress on, the newest only: a slow listener falls behind, it does not queue up."""

    def __init__(self, tell: ProgressFnT) -> None:
        self._tell = tell
        self._newest: tuple[float, float | None, str | None] | None = None
        self._is_telling = False

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        self._newest = (progress, total, message)
        if self._is_telling:
            return
        self._is_telling = True
        try:
            while self._newest is not None:
                newest, self._newest = self._newest, None
                await self._tell(*newest)
        finally:
            self._is_telling = False
