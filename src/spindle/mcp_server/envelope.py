"""Requests of 2026-07-28 say in `_meta` which version they are of and who their client is, and over HTTP they
repeat parts of themselves as headers. Here both are checked before anything is done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from spindle.domain.json_schema import JsonObject, is_object
from spindle.mcp_protocol import headers as names
from spindle.mcp_protocol.errors import McpError
from spindle.mcp_protocol.names import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    MODERN_VERSIONS,
    PARSE_ERROR,
    PROTOCOL_VERSION,
    UNSUPPORTED_PROTOCOL_VERSION,
)

HTTP_STATUSES: Mapping[int, int] = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    MISSING_REQUIRED_CLIENT_CAPABILITY: 400,
    UNSUPPORTED_PROTOCOL_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}
"""By the code of an error, the status of its answer. All others are 200."""
_ROUTING = frozenset({names.VERSION, names.METHOD, names.NAME})


@dataclass(slots=True)
class Envelope:
    """The description that a request gives of itself, as it came."""

    version: str
    info: Any
    capabilities: Any


def read_envelope(
    method: Any, params: JsonObject | None, headers: Mapping[str, str] | None = None
) -> Envelope:
    """The envelope of a request. Raises the error for one that lacks a part, does not match its headers (if
    any are given), or is of another version."""
    meta = params.get("_meta") if params is not None else None
    if not is_object(meta):
        keys = f"{PROTOCOL_VERSION!r} and {CLIENT_CAPABILITIES!r}"
        raise McpError(
            INVALID_PARAMS, f"params._meta must be an object carrying the required {keys} envelope keys"
        )
    missing = [key for key in (PROTOCOL_VERSION, CLIENT_CAPABILITIES) if key not in meta]
    if missing:
        raise McpError(
            INVALID_PARAMS, f"params._meta is missing the required envelope key(s): {', '.join(missing)}"
        )
    version = meta[PROTOCOL_VERSION]
    if headers is not None:
        _compare(method, params or {}, version, headers)
    if not isinstance(version, str):
        raise McpError(INVALID_PARAMS, "the protocol-version envelope value must be a string")
    check_version(version)
    return Envelope(version, meta.get(CLIENT_INFO), meta[CLIENT_CAPABILITIES])


def _compare(method: Any, params: JsonObject, version: Any, headers: Mapping[str, str]) -> None:
    said = headers.get(names.VERSION)
    if said is None or said != version:
        raise _mismatch(f"{names.VERSION} header does not match the request envelope's protocol version")
    if headers.get(names.METHOD) != method:
        raise _mismatch(f"{names.METHOD} header does not match the request body's method")
    key = names.NAMED_BY.get(method)
    if key is not None:
        value = params.get(key)
        if value is not None and names.decoded(headers.get(names.NAME)) != value:
            raise _mismatch(f"{names.NAME} header does not match the request body's {key!r} parameter")


def check_version(version: str) -> None:
    """Raises the error for a version that is not of this era."""
    if version not in MODERN_VERSIONS:
        data = {"supported": [*MODERN_VERSIONS], "requested": version}
        raise McpError(UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", data)


def repeated_header(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """A header for proxies that comes more than once: they might not read the same one as we do."""
    seen: set[str] = set()
    for name, _ in headers:
        key = name.decode("latin-1").lower()
        if key in _ROUTING:
            if key in seen:
                return key
            seen.add(key)
    return None


def compare_arguments(schema: JsonObject, arguments: JsonObject, headers: Mapping[str, str]) -> None:
    """Raises the error for a call whose headers do not repeat the arguments that the tool's schema names."""
    wrong = names.wrong_header(schema, arguments, headers)
    if wrong is not None:
        raise _mismatch(wrong)


def _mismatch(message: str) -> McpError:
    return McpError(HEADER_MISMATCH, message)
