"""Streamable HTTP, both eras, as an ASGI app: no queue and no task between a request and its answer."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from spindle.domain.json_schema import JsonObject, from_json, is_object
from spindle.errors import RateLimitedError
from spindle.listening.again import remember_head
from spindle.listening.headers import headers_of
from spindle.listening.whole import is_own, whole_body
from spindle.mcp_protocol.errors import McpError, as_request_id, same_id
from spindle.mcp_protocol.names import (
    HANDSHAKE_VERSIONS,
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    LATEST_HANDSHAKE,
    PARSE_ERROR,
    ROOTS_CHANGED,
)
from spindle.mcp_server.calling import answered
from spindle.mcp_server.channel import RequestChannel, cancelled_message, error_message
from spindle.mcp_server.connection import ClientConnection
from spindle.mcp_server.direct import DirectCalls
from spindle.mcp_server.envelope import (
    HTTP_STATUSES,
    check_version,
    compare_arguments,
    read_envelope,
    repeated_header,
)
from spindle.mcp_server.event_ids import FIRST_VERSION_WITH_PRIMERS, NOTICES, EventId, read_event_id
from spindle.mcp_server.exchange import JSON_TYPE, Headers, PostExchange, respond
from spindle.mcp_server.inbound import Inbound
from spindle.mcp_server.resuming import Resuming
from spindle.mcp_server.sessions import MAX_RUNNING, SESSION_HEADER, HttpSession, Sessions
from spindle.serving.access import admission_of
from spindle.timers import Timers

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from spindle.domain.identity import Principal
    from spindle.mcp_protocol.errors import RequestId
    from spindle.mcp_server.server import CatalogServer

PATH = "/mcp"
VERSION_HEADER = b"mcp-protocol-version"

NO_MESSAGE = "the body must be one JSON-RPC request or notification"
_ALLOWED = ((b"allow", b"GET, POST, DELETE"),)


class Refused(Exception):  # noqa: N818 - an answer, not a mistake of ours
    """A request that is answered with an error."""

    def __init__(self, status: int, code: int, message: str, request_id: RequestId | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = error_message(request_id, code, message)


class McpApp:
    """The ASGI app that serves MCP over Streamable HTTP."""

    def __init__(self, catalog: CatalogServer) -> None:
        self._catalog = catalog
        self.sessions = Sessions(catalog)
        self.resuming = Resuming(catalog, self.sessions)
        self._timers = Timers()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["path"] != PATH and scope["path"].rstrip("/") != PATH:
            await respond(send, 404, error_message(None, INVALID_REQUEST, f"the server is at {PATH}"))
            return
        principal = self._catalog.access.principal(scope)
        request = _Request(scope, principal, receive, send)
        try:
            version = request.headers.get(VERSION_HEADER, LATEST_HANDSHAKE)
            if version not in HANDSHAKE_VERSIONS:
                await self._modern(request)
            elif scope["method"] == "POST":
                await self._post(request)
            elif scope["method"] == "GET":
                await self._get(request)
            elif scope["method"] == "DELETE":
                await self.sessions.end(await self._session(request))
                await respond(send, 200)
            else:
                await respond(send, 405, None, _ALLOWED)
        except Refused as refused:
            await respond(send, refused.status, refused.body)
        except RateLimitedError as full:
            wait = (b"retry-after", str(math.ceil(full.retry_after or 1)).encode())
            body = error_message(None, INTERNAL_ERROR, f"{full.message} ({full.hint})")
            await respond(send, 429, body, (wait,))

    # --- 2026-07-28: every request stands alone

    async def _modern(self, request: _Request) -> None:
        if request.scope["method"] != "POST":
            await respond(request.send, 405, None, ((b"allow", b"POST"),))
            return
        request.check_types()
        message = await request.message(self._catalog.config.max_body_size)
        if "id" not in message:
            self._acknowledge(message, request)
            await respond(request.send, 202)
            return
        request_id, method, params = _parts(message)
        if method == "subscriptions/listen" and not request.takes_stream:
            raise Refused(406, INVALID_REQUEST, "listening needs Accept: text/event-stream", request_id)
        duplicated = repeated_header(request.scope["headers"])
        if duplicated is not None:
            raise Refused(400, HEADER_MISMATCH, f"{duplicated} header appears more than once", request_id)
        headers = request.headers.texts()
        try:
            said = read_envelope(method, params, headers)
            if method == "tools/call":
                await self._check_parameter_headers(request, headers, params or {})
        except McpError as error:
            body = error_message(request_id, error.code, error.message, error.data)
            await respond(request.send, HTTP_STATUSES.get(error.code, 400), body)
            return
        exchange = request.exchange(cancels=True)
        connection = ClientConnection.from_envelope(said.version, said.info, said.capabilities)
        channel = RequestChannel(request_id, params, exchange.event)
        channel.facts = Inbound(connection, request.principal, channel, request.scope)
        task = asyncio.current_task()
        assert task is not None
        work = answered(self._catalog, channel, method, params)
        answer = await exchange.run(self._timers, task, work)
        if answer is not None:
            await exchange.answer(answer, _status(answer))

    def _acknowledge(self, message: JsonObject, request: _Request) -> None:
        """Notifications have nothing to act on where every request stands alone, but are no mistake."""
        if message.get("jsonrpc") != "2.0" or not isinstance(message.get("method"), str):
            raise Refused(400, INVALID_REQUEST, NO_MESSAGE)
        try:
            check_version(request.headers.get(VERSION_HEADER))
        except McpError as error:
            refused = Refused(400, error.code, error.message)
            refused.body = error_message(None, error.code, error.message, error.data)
            raise refused from None

    async def _check_parameter_headers(
        self, request: _Request, headers: Mapping[str, str], params: JsonObject
    ) -> None:
        name = params.get("name")
        arguments: Any = params.get("arguments") or {}
        if not isinstance(name, str) or not is_object(arguments):
            return
        if not arguments and not any(header.startswith("mcp-param-") for header in headers):
            return
        schema = await self._catalog.listing.header_schema(request.principal, name)
        if schema is not None:
            compare_arguments(schema, arguments, headers)

    # --- the handshake era: requests belong to a session

    async def _post(self, request: _Request) -> None:
        request.check_types()
        message = await request.message(self._catalog.config.max_body_size)
        if message.get("method") == "initialize" and "id" in message:
            await self._initialize(request, message)
            return
        session = self._known(request) or await self._session(request)
        self._remember(request, session)
        if "method" not in message and ("result" in message or "error" in message):
            await self.sessions.answered(session, message)
            await respond(request.send, 202, None, session.headers)
        elif "id" not in message:
            await self._notified(request, session, message)
            await respond(request.send, 202, None, session.headers)
        else:
            await self._answer(request, session, message)

    def _remember(self, request: _Request, session: HttpSession) -> None:
        """Has further requests of the session that begin like this one go straight to the calls."""
        admitted = admission_of(request.scope)
        if admitted is not None and is_own(request.send):
            streams = request.takes_stream
            calls = DirectCalls(
                self._catalog, self.sessions, self._timers, session, admitted, takes_stream=streams
            )
            remember_head(request.scope, calls)

    async def _initialize(self, request: _Request, message: JsonObject) -> None:
        known = SESSION_HEADER in request.headers
        session = await self._session(request) if known else HttpSession(self._catalog, request.principal)
        request_id, method, params = _parts(message)
        exchange = request.exchange(session.headers)
        channel = self._channel(request, session, exchange, request_id, params)
        answer = await answered(self._catalog, channel, method, params)
        if "result" in answer:
            await self.sessions.opened(session)
            exchange.headers = session.headers
            await exchange.answer(answer)
        else:
            await respond(request.send, 200, answer)

    async def _answer(self, request: _Request, session: HttpSession, message: JsonObject) -> None:
        request_id, method, params = _parts(message)
        key = same_id(request_id)
        if key in session.running:
            raise Refused(400, INVALID_REQUEST, "this id is already in use", request_id)
        if len(session.running) >= MAX_RUNNING:
            raise Refused(429, INTERNAL_ERROR, "too many requests at once", request_id)
        exchange = request.exchange(session.headers)
        exchange.keep = partial(self.sessions.kept.begin, session, message)
        channel = self._channel(request, session, exchange, request_id, params)
        task = asyncio.current_task()
        assert task is not None
        session.running[key] = task, channel
        try:
            work = answered(self._catalog, channel, method, params)
            answer = await exchange.run(self._timers, task, work)
        except asyncio.CancelledError:
            if not channel.is_cancelled:
                if exchange.kept is not None:
                    self.sessions.kept.dropped(exchange.kept)
                raise
            task.uncancel()
            answer = cancelled_message(request_id)
        finally:
            del session.running[key]
            session.touch()
        if answer is not None:
            await exchange.answer(answer)

    def _channel(
        self,
        request: _Request,
        session: HttpSession,
        exchange: PostExchange,
        request_id: RequestId,
        params: JsonObject | None,
    ) -> RequestChannel:
        ask = exchange.ask if request.takes_stream else None
        channel = RequestChannel(request_id, params, exchange.event, ask)
        channel.facts = Inbound(session.connection, session.principal, channel, request.scope)
        return channel

    async def _notified(self, request: _Request, session: HttpSession, message: JsonObject) -> None:
        method, params = message.get("method"), message.get("params")
        if message.get("jsonrpc") != "2.0" or not isinstance(method, str):
            raise Refused(400, INVALID_REQUEST, NO_MESSAGE)
        if params is not None and not is_object(params):
            raise Refused(400, INVALID_REQUEST, "params must be an object")
        if method == "notifications/cancelled":
            cancelled = as_request_id((params or {}).get("requestId"))
            if cancelled is not None:
                await self.sessions.cancelled(session, cancelled)
            return
        if method == ROOTS_CHANGED:
            await self.sessions.roots_changed(session)
        self._catalog.kernel.notified(session.connection, method, params)

    async def _get(self, request: _Request) -> None:
        if not request.takes_stream:
            raise Refused(406, INVALID_REQUEST, "Not Acceptable: send Accept: text/event-stream")
        session = await self._session(request)
        last = read_event_id(request.headers.get(b"last-event-id"))
        if last is not None and last.stream != NOTICES:
            await self.resuming.serve(session, last, request.scope, request.receive, request.send)
        else:
            await self._listen(request, session, last)

    async def _listen(self, request: _Request, session: HttpSession, last: EventId | None) -> None:
        notices, changes = session.notices, self._catalog.changes
        if notices.is_open and last is None:
            raise Refused(409, INVALID_REQUEST, "Conflict: the session has a stream already")
        changes.open_streams.remove(session.principal.id, session.listener)
        changes.take_stream(session.listener)
        session.scope = request.scope
        if last is not None and not notices.rewind(last):
            changes.tell_anew(session.listener)
        primes = session.connection.protocol_version >= FIRST_VERSION_WITH_PRIMERS
        try:
            await notices.serve(request.receive, request.send, session.headers, primes=primes)
        finally:
            if not notices.is_open:
                changes.open_streams.remove(session.principal.id, session.listener)
                session.scope = None
                session.touch()

    def _known(self, request: _Request) -> HttpSession | None:
        return self.sessions.get(request.headers.get(SESSION_HEADER), request.principal)

    async def _session(self, request: _Request) -> HttpSession:
        if SESSION_HEADER not in request.headers:
            raise Refused(400, INVALID_REQUEST, "Bad Request: Missing session ID")
        session = self._known(request)
        if session is None:
            shown = request.headers.get(SESSION_HEADER)
            session = await self.sessions.revived(shown, request.principal)
        if session is None:
            raise Refused(404, INVALID_REQUEST, "Session not found")
        return session


class _Request:
    __slots__ = ("headers", "principal", "receive", "scope", "send", "takes_json", "takes_stream")

    def __init__(self, scope: Scope, principal: Principal, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.headers = headers_of(scope)
        self.principal = principal
        self.receive = receive
        self.send = send
        accept = self.headers.raw(b"accept")
        self.takes_json, self.takes_stream = _usually(accept) if len(accept) <= 200 else _accepts(accept)

    def exchange(self, headers: Headers = (), *, cancels: bool = False) -> PostExchange:
        return PostExchange(
            self.receive, self.send, streams=self.takes_stream, cancels=cancels, headers=headers
        )

    def check_types(self) -> None:
        given = self.headers.raw(b"content-type")
        if given != JSON_TYPE[1] and given.split(b";")[0].strip().lower() != JSON_TYPE[1]:
            raise Refused(415, INVALID_REQUEST, "Unsupported Media Type: send Content-Type: application/json")
        if not self.takes_json:
            message = "Not Acceptable: send Accept: application/json, text/event-stream"
            raise Refused(406, INVALID_REQUEST, message)

    async def message(self, limit: int) -> JsonObject:
        body = await self._body(limit)
        try:
            message = from_json(body)
        except ValueError:
            raise Refused(400, PARSE_ERROR, "Parse error") from None
        if not is_object(message):
            raise Refused(400, INVALID_REQUEST, NO_MESSAGE)
        return message

    async def _body(self, limit: int) -> bytes:
        whole = whole_body(self.receive, limit)
        if whole is not None:
            return whole
        length = self.headers.get(b"content-length")
        if length.isdigit() and int(length) > limit:
            raise _too_large(limit)
        parts: list[bytes] = []
        size = 0
        while True:
            event = await self.receive()
            if event["type"] == "http.disconnect":
                raise Refused(400, INVALID_REQUEST, "the body is not complete")
            part: bytes = event.get("body", b"")
            size += len(part)
            if size > limit:
                raise _too_large(limit)
            parts.append(part)
            if not event.get("more_body", False):
                return b"".join(parts)


def _accepts(header: bytes) -> tuple[bool, bool]:
    """If a client takes JSON, and if it takes a stream of events."""
    accepted = {part.split(b";")[0].strip().lower() for part in header.split(b",")}
    anything = b"*/*" in accepted
    takes_json = anything or bool(accepted & {JSON_TYPE[1], b"application/*"})
    return takes_json, anything or bool(accepted & {b"text/event-stream", b"text/*"})


_usually = lru_cache(100)(_accepts)
"""The same: there are few such headers, and each comes with every request."""


def _too_large(limit: int) -> Refused:
    return Refused(413, INVALID_REQUEST, f"a body may have {limit} bytes; see serve.max_body_size")


def _parts(message: JsonObject) -> tuple[RequestId, str, JsonObject | None]:
    """The parts of a request, which must be one."""
    request_id = as_request_id(message.get("id"))
    method, params = message.get("method"), message.get("params")
    if message.get("jsonrpc") != "2.0" or request_id is None or not isinstance(method, str):
        raise Refused(400, INVALID_REQUEST, NO_MESSAGE)
    if params is not None and not is_object(params):
        raise Refused(400, INVALID_REQUEST, "params must be an object", request_id)
    return request_id, method, params


def _status(answer: JsonObject) -> int:
    error = answer.get("error")
    return HTTP_STATUSES.get(error["code"], 200) if error is not None else 200
