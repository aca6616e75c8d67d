"""JSON-RPC by lines with one client: the era is the one that the client opens with."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from spindle.domain.ids import new_id
from spindle.domain.json_schema import JsonObject, from_json, is_object, to_json
from spindle.domain.trail import inherited
from spindle.mcp_protocol.errors import McpError, RequestId, as_request_id, same_id
from spindle.mcp_protocol.names import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    MODERN_VERSIONS,
    PARSE_ERROR,
    PROTOCOL_VERSION,
    ROOTS_CHANGED,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from spindle.mcp_server.calling import answered
from spindle.mcp_server.channel import RequestChannel, error_message
from spindle.mcp_server.connection import ClientConnection
from spindle.mcp_server.envelope import read_envelope
from spindle.mcp_server.inbound import Inbound, holder_of
from spindle.mcp_server.listeners import SessionListener
from spindle.mcp_server.questions import Questions, roots_of

if TYPE_CHECKING:
    from spindle.domain.identity import Principal
    from spindle.mcp_server.server import CatalogServer

logger = logging.getLogger("spindle.serve")

MAX_RUNNING = 1000

Write = Callable[[bytes], Awaitable[None]]


class LineServer:
    """Serves one client that sends JSON-RPC by lines."""

    def __init__(
        self,
        catalog: CatalogServer,
        write: Write,
        principal: Principal,
        *,
        scope: Mapping[str, Any] | None = None,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        """`scope` is the HTTP request that opened the connection, where one did; `close` ends it."""
        self._catalog = catalog
        self._write = write
        self._principal = principal
        self._questions = Questions()
        self._running: dict[RequestId, tuple[asyncio.Task[None], RequestChannel]] = {}
        self._others: set[asyncio.Task[None]] = set()
        self._trail = inherited() if scope is None else ()
        self._is_modern: bool | None = None
        # Over pipes there is one client, who has the workspace's own sessions with sources.
        self._connection = ClientConnection(self)
        self._connection.session_id = None if scope is None else new_id()
        self._scope = scope
        catalog.changes.joined(SessionListener(self._connection, principal, lambda: scope, close))

    # --- what the client sends

    def line(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            message = from_json(line)
        except ValueError:
            self._spawn(self._send(error_message(None, PARSE_ERROR, "Parse error")))
            return
        if not is_object(message) or message.get("jsonrpc") != "2.0":
            self._refuse(message, "a line must be one JSON-RPC message")
        elif isinstance(message.get("method"), str):
            self._take(message)
        elif "result" in message or "error" in message:
            self._questions.answered(message)
        else:
            self._refuse(message, "a message has a method, a result or an error")

    def too_long(self, head: bytes, tail: bytes) -> None:
        limit = self._catalog.config.max_body_size
        message = f"a message may have {limit} bytes; see serve.max_body_size"
        self._spawn(self._send(error_message(None, INVALID_REQUEST, message)))

    def _take(self, message: JsonObject) -> None:
        method: str = message["method"]
        params = message.get("params")
        if params is not None and not is_object(params):
            self._refuse(message, "params must be an object")
        elif "id" not in message:
            self._notification(method, params)
        elif (request_id := as_request_id(message["id"])) is None:
            self._refuse(message, "an id is text or an integer")
        else:
            self._request(request_id, method, params)

    def _refuse(self, message: Any, reason: str) -> None:
        request_id = as_request_id(message.get("id")) if is_object(message) else None
        self._spawn(self._send(error_message(request_id, INVALID_REQUEST, f"Invalid Request: {reason}")))

    def _request(self, request_id: RequestId, method: str, params: JsonObject | None) -> None:
        key = same_id(request_id)
        if key in self._running:
            self._refuse({"id": request_id}, "this id is already in use")
            return
        if len(self._running) >= MAX_RUNNING:
            refusal = error_message(request_id, INTERNAL_ERROR, "too many requests at once")
            self._spawn(self._send(refusal))
            return
        if self._is_modern is None:
            self._is_modern = method != "initialize" and _has_envelope(params)
        ask = None if self._is_modern else self._questions.ask
        channel = RequestChannel(request_id, params, self._send, ask)
        task = asyncio.create_task(self._serve(channel, method, params))
        self._running[key] = task, channel
        task.add_done_callback(lambda _: self._running.pop(key, None))

    async def _serve(self, channel: RequestChannel, method: str, params: JsonObject | None) -> None:
        try:
            connection = self._connection_of(method, params)
        except McpError as refused:
            await self._send(error_message(channel.request_id, refused.code, refused.message, refused.data))
            return
        channel.facts = Inbound(connection, self._principal, channel, self._scope)
        await self._send(await answered(self._catalog, channel, method, params, self._trail))

    def _connection_of(self, method: str, params: JsonObject | None) -> ClientConnection:
        """The connection that a request belongs to: of 2026-07-28, each has its own."""
        if not self._is_modern:
            if method != "initialize" and _has_envelope(params):
                raise McpError(
                    INVALID_REQUEST,
                    "this connection began with the handshake; it takes no request of 2026-07-28",
                )
            return self._connection
        if method == "initialize":
            supported = {"supported": list(MODERN_VERSIONS)}
            requested = (params or {}).get("protocolVersion")
            data = {**supported, "requested": requested} if isinstance(requested, str) else supported
            raise McpError(UNSUPPORTED_PROTOCOL_VERSION, "this connection speaks 2026-07-28", data)
        said = read_envelope(method, params)
        return ClientConnection.from_envelope(said.version, said.info, said.capabilities)

    def _notification(self, method: str, params: JsonObject | None) -> None:
        if method == "notifications/cancelled":
            request_id = as_request_id((params or {}).get("requestId"))
            running = self._running.get(same_id(request_id)) if request_id is not None else None
            if running is not None:
                # As the protocol has it, a cancelled request gets no answer.
                running[1].cancel()
                running[0].cancel()
            return
        if not self._is_modern:
            if method == ROOTS_CHANGED:
                self._spawn(self._roots_changed())
            self._catalog.kernel.notified(self._connection, method, params)

    async def _roots_changed(self) -> None:
        ask = partial(self._questions.ask, send=self._send)
        holders = [holder_of(self._connection, self._principal)]
        connections = self._catalog.app.catalog.connections
        await connections.tell_roots_changed(holders, partial(roots_of, self._connection, ask))

    # --- what is sent to the client outside of any request

    async def notify(self, method: str, params: Mapping[str, Any] | None) -> None:
        await RequestChannel(None, None, self._send).notify(method, params)

    async def _send(self, message: JsonObject) -> None:
        try:
            await self._write(to_json(message) + b"\n")
        except OSError as error:
            logger.debug("not sent: %s", error)

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._others.add(task)
        task.add_done_callback(self._others.discard)

    # --- the end

    async def finish(self, seconds: float, *, streams: bool = True) -> None:
        """Let what runs end by itself, but not for long. Streams that would never end are not waited for:
        those of the server end first, where the client is its only one."""
        if streams:
            self._catalog.changes.close_streams()
        running = {task for task, _ in self._running.values()} | self._others
        if running:
            _, late = await asyncio.wait(running, timeout=seconds)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=1)

    def close(self) -> None:
        self._catalog.changes.left(self._connection)
        if self._connection.session_id is not None:
            holder = holder_of(self._connection, self._principal)
            self._catalog.app.catalog.connections.retire_holder(holder)
        self._questions.close()


def _has_envelope(params: Mapping[str, Any] | None) -> bool:
    meta = (params or {}).get("_meta")
    return is_object(meta) and PROTOCOL_VERSION in meta
