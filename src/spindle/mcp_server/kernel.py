"""A request of a client → its handler → the answer as the client's version of the protocol has it.

What is plainly right is taken as it is (`mcp_protocol/messages`). All else is given to the SDK's models,
which take half a second and many megabytes to load, and say what is wrong with it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from spindle.domain.json_schema import JsonObject, is_object
from spindle.mcp_protocol import models
from spindle.mcp_protocol.errors import McpError
from spindle.mcp_protocol.messages import CLIENT, SPECIFIED, fits, fitted, is_known, plainly
from spindle.mcp_protocol.names import (
    HANDSHAKE_VERSIONS,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    LATEST_HANDSHAKE,
    METHOD_NOT_FOUND,
    MODERN_VERSIONS,
    SERVER_INFO,
)
from spindle.mcp_server.inbound import RequestContext
from spindle.version import __version__

if TYPE_CHECKING:
    from spindle.mcp_server.connection import ClientConnection
    from spindle.mcp_server.inbound import Inbound

logger = logging.getLogger("spindle.serve")

Answer = Callable[[RequestContext], Awaitable[JsonObject]]
"""Answers a request, whose parameters are as its version has them."""

IDENTITY: JsonObject = {"name": "spindle", "version": __version__}
"""Whom clients speak to."""
CORE = frozenset({"complete", "input_required"})
"""The types of results that the protocol itself knows. Others are those of extensions."""
INITIALIZED = "notifications/initialized"


class ServedRequest:
    """A request as our handlers see it."""

    __slots__ = ("meta", "method", "params", "protocol_version", "request")

    def __init__(self, facts: Inbound, method: str, params: JsonObject | None) -> None:
        self.request = facts
        self.method = method
        self.params = params
        self.protocol_version = facts.connection.protocol_version
        meta = params.get("_meta") if params is not None else None
        self.meta: Mapping[str, object] | None = meta if is_object(meta) else None

    @property
    def session(self) -> ServedRequest:
        return self

    @property
    def client_capabilities(self) -> JsonObject | None:
        return self.request.connection.client_capabilities

    @property
    def can_send_request(self) -> bool:
        return self.request.channel.can_send_request


class Kernel:
    """Answers the requests of all clients of a server."""

    def __init__(self, instructions: str | None, extensions: JsonObject) -> None:
        self.instructions = instructions
        self._extensions = extensions
        self.answers: dict[str, Answer] = {"ping": _pong, "server/discover": self._discover}

    async def request(self, facts: Inbound, method: str, params: JsonObject | None) -> JsonObject:
        """The result of a request. Raises McpError for one that has none."""
        connection = facts.connection
        version = connection.protocol_version
        is_ours = is_known(method, version)
        if is_ours:
            await _check(method, version, params)
        if method == "initialize" and is_ours:
            return await self._initialize(connection, params or {})
        answer = self.answers.get(method)
        if answer is None or (not is_ours and method in SPECIFIED):
            raise McpError(METHOD_NOT_FOUND, "Method not found", method)
        if not connection.takes_requests and method != "ping":
            raise _invalid()
        result = await answer(ServedRequest(facts, method, params))
        return await self.shaped(method, version, result)

    def notified(self, connection: ClientConnection, method: str, params: JsonObject | None) -> None:
        """Takes a notification, of which only one means something to us."""
        meta = (params or {}).get("_meta")
        if method == INITIALIZED and connection.protocol_version in HANDSHAKE_VERSIONS:
            if meta is None or is_object(meta):
                connection.is_initialized = True
            else:
                logger.warning("dropped %r: malformed params", method)

    async def shaped(self, method: str, version: str, result: JsonObject) -> JsonObject:
        """A result as it goes to a client of this version."""
        modern = version in MODERN_VERSIONS
        if is_known(method, version) and (not modern or result.get("resultType", "complete") in CORE):
            found = fitted(method, version, result)
            if found is None:
                try:
                    found = await models.served_result(method, version, result)
                except ValueError:
                    # Of the SDK, whose words repeat what is in the result.
                    logger.exception("the result of %r is not one of MCP", method)
                    raise McpError(INTERNAL_ERROR, "Handler returned an invalid result") from None
            result = found
        return stamped(result) if modern else result

    # --- who we are

    async def _initialize(self, connection: ClientConnection, params: JsonObject) -> JsonObject:
        client = plainly(CLIENT, params) or await models.client_params(params)
        wanted = client["protocolVersion"]
        connection.agree(wanted if wanted in HANDSHAKE_VERSIONS else LATEST_HANDSHAKE, client)
        opening: JsonObject = {
            "protocolVersion": connection.protocol_version,
            "capabilities": self._capabilities(),
            "serverInfo": {**IDENTITY},
        }
        return opening | ({"instructions": self.instructions} if self.instructions is not None else {})

    async def _discover(self, _: RequestContext) -> JsonObject:
        found: JsonObject = {
            "resultType": "complete",
            "supportedVersions": [*MODERN_VERSIONS],
            "capabilities": {**self._capabilities(), "extensions": self._extensions},
            "ttlMs": 0,
            "cacheScope": "private",
        }
        return found | ({"instructions": self.instructions} if self.instructions is not None else {})

    def _capabilities(self) -> JsonObject:
        # Also where no source has any: one that does may come while a client is connected.
        return {
            "tools": {"listChanged": True},
            "resources": {"subscribe": True, "listChanged": True},
            "prompts": {"listChanged": True},
            "logging": {},
            "completions": {},
        }


def stamped(result: JsonObject) -> JsonObject:
    """The result with what 2026-07-28 wants each to say: of what type it is, and who answers."""
    meta: JsonObject = result.get("_meta") or {}
    stamp = {} if meta.get(SERVER_INFO) is not None else {SERVER_INFO: IDENTITY}
    return {"resultType": "complete", **result, "_meta": {**meta, **stamp}}


async def _check(method: str, version: str, params: JsonObject | None) -> None:
    """Raises the error for parameters that are not as this version has them."""
    if fits(method, version, params):
        return
    try:
        await models.check_request(method, version, params)
    except ValueError:
        raise _invalid() from None


def _invalid() -> McpError:
    return McpError(INVALID_PARAMS, "Invalid request parameters", "")


async def _pong(_: RequestContext) -> JsonObject:
    return {}
