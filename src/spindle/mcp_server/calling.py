"""`tools/call`, the one request that is hot, by the shortest way. All else, and whatever is unusual about a
call, is the kernel's."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from spindle.domain import trail
from spindle.domain.json_schema import JsonObject, is_array, is_object
from spindle.mcp_protocol import models
from spindle.mcp_protocol.errors import McpError
from spindle.mcp_protocol.messages import fitted
from spindle.mcp_protocol.names import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    INTERNAL_ERROR,
    MODERN_VERSIONS,
    PROTOCOL_VERSION,
    SERVER_INFO,
)
from spindle.mcp_server.channel import error_message
from spindle.mcp_server.introduction import OPENING, introduced
from spindle.mcp_server.kernel import IDENTITY, ServedRequest
from spindle.mcp_server.tasks import TaskCreated

if TYPE_CHECKING:
    from spindle.mcp_protocol.errors import RequestId
    from spindle.mcp_server.channel import RequestChannel
    from spindle.mcp_server.connection import ClientConnection
    from spindle.mcp_server.server import CatalogServer

logger = logging.getLogger("spindle.serve")

METHOD = "tools/call"
_PARAMS = frozenset({"name", "arguments", "_meta"})
_ENVELOPE = frozenset({PROTOCOL_VERSION, CLIENT_INFO, CLIENT_CAPABILITIES})
_META = _ENVELOPE | {"progressToken", trail.META_KEY}
_RESERVED = "io.modelcontextprotocol/"
"""Begins the keys of `_meta` that mean something to the protocol. All others are the client's own."""
_RESULT = frozenset({"content", "structuredContent", "isError", "resultType", "_meta"})


async def answered(
    catalog: CatalogServer,
    channel: RequestChannel,
    method: str,
    params: JsonObject | None,
    before: trail.Trail = (),
) -> JsonObject:
    """The answer to a request in any case; details of internal errors stay in our log. Its connection came by
    the trail `before`."""
    try:
        way = catalog.way(params, before) if before or (params and "_meta" in params) else ()
        outside = trail.follow(way)
        try:
            facts = channel.facts
            assert facts is not None
            if method == METHOD and is_plain_call(params, facts.connection):
                result = await catalog.handle_call(ServedRequest(facts, METHOD, params))
                result = await shaped(result, facts.connection.protocol_version)
            else:
                result = await catalog.kernel.request(facts, method, params)
            if method in OPENING:
                result = await introduced(catalog, facts.principal, result)
        finally:
            trail.follow(outside)
    except TaskCreated as task:
        result = task.result
    except Exception as error:  # noqa: BLE001 - the edge: the client gets an answer
        return failed(channel.request_id, error)
    return {"jsonrpc": "2.0", "id": channel.request_id, "result": result}


def failed(request_id: RequestId | None, error: Exception) -> JsonObject:
    """The answer to a request that ended with an error; details of internal ones stay in our log."""
    if isinstance(error, McpError):
        return error_message(request_id, error.code, error.message, error.data)
    logger.error("a request failed", exc_info=error)
    return error_message(request_id, INTERNAL_ERROR, "Internal server error")


def is_plain_call(params: JsonObject | None, connection: ClientConnection) -> bool:
    """True for a call whose parameters are as every version of the protocol has them, on a connection that
    takes calls."""
    if params is None or not params.keys() <= _PARAMS or not isinstance(params.get("name"), str):
        return False
    arguments = params.get("arguments")
    if not (arguments is None or is_object(arguments)):
        return False
    is_modern = connection.protocol_version in MODERN_VERSIONS
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


async def shaped(result: JsonObject, version: str) -> JsonObject:
    """The result as it goes to the client, with what its version of the protocol asks for and no more."""
    is_modern = version in MODERN_VERSIONS
    if not _is_plain(result, is_modern=is_modern) and fitted(METHOD, version, result) is None:
        try:
            # Only looked at: whatever its fields hold goes out as it came in.
            await models.served_result(METHOD, version, result)
        except ValueError:
            logger.exception("the result of a call is not one of MCP")
            raise McpError(code=INTERNAL_ERROR, message="Handler returned an invalid result") from None
    if is_modern:
        meta: JsonObject = result.get("_meta") or {}
        result = {**result, "_meta": {**meta, SERVER_INFO: IDENTITY}}
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
