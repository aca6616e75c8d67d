"""The SDK's models, asked about messages that are not plainly right. They take half a second to load, which
nobody waits for on the event loop."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from spindle.domain.json_schema import JsonObject
from spindle.mcp_protocol.names import HANDSHAKE_VERSIONS, MODERN_VERSIONS

MODULE = "mcp_types.methods"


async def load() -> None:
    """Loads the models, in a thread, unless they are there."""
    if MODULE not in sys.modules:
        await asyncio.to_thread(importlib.import_module, MODULE)


async def check_request(method: str, version: str, params: JsonObject | None) -> None:
    """Raises ValidationError for a client's request whose parameters are not as this version has them."""
    await load()
    from mcp_types.methods import validate_client_request

    validate_client_request(method, version, params)


async def client_params(params: JsonObject) -> JsonObject:
    """Returns the description that a client gives of itself in the handshake, which was found to be right."""
    await load()
    from mcp_types import InitializeRequestParams

    found = dumped(InitializeRequestParams.model_validate(params, by_name=False)) or {}
    return {name: found[name] for name in ("protocolVersion", "capabilities", "clientInfo")}


async def served_result(method: str, version: str, result: JsonObject) -> JsonObject:
    """A result of ours as this version has it. Raises ValidationError for one that is none."""
    await load()
    from mcp_types.methods import serialize_server_result

    return serialize_server_result(method, version, result)


async def checked_result(method: str, version: str, result: JsonObject) -> JsonObject:
    """The result of a server without the fields that only later versions know. Raises ValidationError if it
    is not as this version has it; one of a method that it does not know is as it is."""
    from spindle.mcp_protocol.messages import fitted

    plain = fitted(method, version, result)
    if plain is not None and plain.keys() == result.keys():
        return result
    await load()
    from mcp_types.methods import SERVER_RESULTS, validate_server_result

    if (method, version) not in SERVER_RESULTS:
        return result
    validate_server_result(method, version, result)
    later = _later_fields(method, version)
    return {name: value for name, value in result.items() if name not in later}


def _later_fields(method: str, version: str) -> frozenset[str]:
    from mcp_types.methods import SERVER_RESULTS

    known = (*HANDSHAKE_VERSIONS, *MODERN_VERSIONS)
    rows = [SERVER_RESULTS.get((method, later)) for later in known[known.index(version) + 1 :]]
    return frozenset[str]().union(*(_fields(row) for row in rows)) - _fields(SERVER_RESULTS[method, version])


def _fields(row: Any) -> frozenset[str]:
    """The names of the fields of a model, or of all that a union has."""
    members = getattr(row, "__args__", (row,))
    return frozenset(
        field.alias or name
        for member in members
        if isinstance(member, type) and issubclass(member, BaseModel)
        for name, field in member.model_fields.items()
    )


async def server_request(method: str, version: str, params: Mapping[str, Any] | None) -> JsonObject | None:
    """The parameters of a server's request, if it has any. Raises KeyError for a method that this version
    does not know, and ValidationError for one that is not as it has it."""
    await load()
    from mcp_types.methods import parse_server_request

    return dumped(parse_server_request(method, version, params).params)


def checked_answer(method: str, version: str, answer: JsonObject) -> JsonObject:
    """The answer to a server's request, in the form that this version has it in. Raises ValidationError for
    one that is none."""
    from mcp_types.methods import parse_client_result

    return dumped(parse_client_result(method, version, answer)) or {}


def dumped(model: BaseModel | None) -> JsonObject | None:
    """The model as JSON in the protocol's form."""
    return None if model is None else model.model_dump(by_alias=True, mode="json", exclude_none=True)
