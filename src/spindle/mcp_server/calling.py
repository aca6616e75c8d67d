"""`tools/call` from JSON to JSON: the one request that is hot goes past the SDK's models wherever they would
find nothing to say. All else, and whatever is unusual about a call, is the SDK's kernel's."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    INTERNAL_ERROR,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
)
from mcp_types.methods import validate_server_result
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from spindle.domain import trail
from spindle.domain.json_schema import JsonObject, is_array, is_object
from spindle.mcp_imports import modern_error_data, serve_one
from spindle.mcp_protocol.errors import McpError
from spindle.mcp_server.channel import error_message
from spindle.mcp_server.introduction import OPENING, introduced
from spindle.mcp_server.tasks import TaskCreated

if TYPE_CHECKING:
    from mcp_types import ClientCapabilities

    from spindle.mcp_imports import Connection, Server, ServerRunner
    from spindle.mcp_server.channel import RequestChannel
    from spindle.mcp_server.inbound import Inbound
    from spindle.mcp_server.server import CatalogServer

logger = logging.getLogger("spindle.serve")

METHOD = "tools/call"
_PARAMS = frozenset({"name", "arguments", "_meta"})
_ENVELOPE = frozenset({PROTOCOL_VERSION_META_KEY, CLIENT_INFO_META_KEY, CLIENT_CAPABILITIES_META_KEY})
_META = _ENVELOPE | {"progressToken", trail.META_KEY}
_RESERVED = "io.modelcontextprotocol/"
"""Begins the keys of `_meta` that mean something to the protocol. All others are the client's own."""
_RESULT = frozenset({"content", "structuredContent", "isError", "resultType", "_meta"})


async def answered(
    catalog: CatalogServer,
    runner: ServerRunner[Any] | None,
    channel: RequestChannel,
    method: str,
    params: JsonObject | None,
    before: trail.Trail = (),
) -> JsonObject:
    """The answer to a request in any case; details of internal errors stay in our log. `runner` is that of
    its connection, which came by the trail `before`; None where every request stands alone."""
    try:
        way = catalog.way(params, before) if before or (params and "_meta" in params) else ()
        outside = trail.follow(way)
        try:
            facts = channel.facts
            assert facts is not None
            if method == METHOD and is_plain_call(params, facts.connection):
                context = CallContext(facts, params)
                result = shaped(await catalog.handle_call(context, None), context, catalog.server)
            elif runner is not None:
                result = await runner.on_request(channel, method, params)
            else:
                result = await serve_one(
                    catalog.server, channel, method, params, connection=facts.connection, lifespan_state={}
                )
            if method in OPENING:
                result = await introduced(catalog, facts.principal, result)
        finally:
            trail.follow(outside)
    except TaskCreated as task:
        result = task.result
    except McpError as error:
        return error_message(channel.request_id, error.code, error.message, error.data)
    except Exception as error:  # noqa: BLE001 - the edge: the client gets an answer
        found = modern_error_data(error)
        return error_message(channel.request_id, found.code, found.message, found.data)
    return {"jsonrpc": "2.0", "id": channel.request_id, "result": result}


class CallContext:
    """A call as our handlers see a request: the part of the SDK's context that they read."""

    __slots__ = ("meta", "params", "protocol_version", "request")

    method = METHOD

    def __init__(self, facts: Inbound, params: JsonObject | None) -> None:
        self.request = facts
        self.params = params
        self.protocol_version = facts.connection.protocol_version
        self.meta: Mapping[str, object] | None = params.get("_meta") if params is not None else None

    @property
    def session(self) -> CallContext:
        return self

    @property
    def client_capabilities(self) -> ClientCapabilities | None:
        return self.request.connection.client_capabilities

    @property
    def can_send_request(self) -> bool:
        return self.request.channel.can_send_request


def is_plain_call(params: JsonObject | None, connection: Connection) -> bool:
    """True for a call whose parameters are as every version of the protocol has them, on a connection that
    takes calls."""
    if params is None or not params.keys() <= _PARAMS or not isinstance(params.get("name"), str):
        return False
    arguments = params.get("arguments")
    if not (arguments is None or is_object(arguments)):
        return False
    is_modern = connection.protocol_version in MODERN_PROTOCOL_VERSIONS
    if "_meta" not in params:
        return not is_modern and connection.client_params is not None
    meta = params["_meta"]
    if not is_object(meta):
        return False
    if not meta.keys() <= _META and any(key.startswith(_RESERVED) for key in meta.keys() - _META):
        return False
    token = meta.get("progressToken", 0)
    if isinstance(token, bool) or not isinstance(token, (str, int)):
        return False
    # Where every request stands alone, it says who its client is: in a form that was understood.
    has_client = connection.client_params is not None
    return has_client and (connection.client_capabilities is not None or not is_modern)


def shaped(result: JsonObject, context: CallContext, server: Server[Any]) -> JsonObject:
    """The result as it goes to the client, with what its version of the protocol asks for and no more."""
    version = context.protocol_version
    is_modern = version in MODERN_PROTOCOL_VERSIONS
    if not _is_plain(result, is_modern=is_modern):
        try:
            # Only looked at: whatever its fields hold goes out as it came in.
            validate_server_result(METHOD, version, result)
        except ValidationError:
            logger.exception("the result of a call is not one of MCP")
            raise McpError(code=INTERNAL_ERROR, message="Handler returned an invalid result") from None
    if is_modern:
        meta: JsonObject = result.get("_meta") or {}
        result = {**result, "_meta": {**meta, SERVER_INFO_META_KEY: server.server_info_stamp}}
    return result


def _is_plain(result: JsonObject, *, is_modern: bool) -> bool:
    """True for texts, perhaps with an object, which are the same in all versions of the protocol."""
    content = result.get("content")
    if not is_array(content) or not result.keys() <= _RESULT:
        return False
    if ("resultType" in result) is not is_modern or result.get("resultType", "complete") != "complete":
        return False
    if not is_object(result.get("structuredContent", {})):
        return False
    return all(len(block) == 2 and block.get("type") == "text" for block in content)
