"""Headers that repeat parts of a request of 2026-07-28, by which a proxy finds its way without the body."""

from __future__ import annotations

import base64
import re
from collections.abc import Generator, Mapping
from typing import Any

from spindle.domain.json_schema import JsonObject, is_array, is_object

VERSION = "mcp-protocol-version"
METHOD = "mcp-method"
NAME = "mcp-name"
PARAMETER = "Mcp-Param-"
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""By method, the parameter that is repeated as the header `mcp-name`."""
ASKS = "x-mcp-header"
"""Of a schema of arguments: the property is repeated as a header of this name."""

Path = tuple[str, ...]
HeaderMap = dict[Path, str]
"""By the path of an argument, the end of its header's name."""

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_PRINTABLE = re.compile(r"[\x20-\x7e]*")
_ENCODED = re.compile(r"=\?base64\?.*\?=")
_TYPES = frozenset({"string", "integer", "boolean"})
_ONE = frozenset(
    {
        "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames",
        "then", "unevaluatedItems", "unevaluatedProperties",
    }
)  # fmt: skip
_MANY = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED = frozenset({"patternProperties", "dependentSchemas", "$defs", "definitions"})


def repeated_arguments(schema: Any) -> HeaderMap:
    """The arguments that a call repeats as headers. Raises ValueError, with the reason, for a schema that
    asks for it in a way that the protocol does not allow."""
    found: HeaderMap = {}
    taken: dict[str, str] = {}
    for path, part in _parts(schema):
        if ASKS not in part:
            continue
        if not path:
            raise ValueError(f"{ASKS} stands where no property of the arguments is")
        where, name, kind = ".".join(path), part[ASKS], part.get("type")
        if not isinstance(name, str):
            raise ValueError(f"property {where!r}: {ASKS} must be a string, not {type(name).__name__}")
        if not _TOKEN.fullmatch(name):
            raise ValueError(f"property {where!r}: {name!r} is not the name of a header")
        if not isinstance(kind, str) or kind not in _TYPES:
            raise ValueError(f"property {where!r}: only texts, integers and booleans are repeated as headers")
        before = taken.setdefault(name.lower(), where)
        if before != where:
            raise ValueError(f"the header {name!r} of property {where!r} is that of property {before!r}")
        found[path] = name
    return found


def _parts(schema: Any) -> Generator[tuple[Path | None, JsonObject]]:
    """All schemas in a schema, each with the names of properties that lead to it; None where more than
    properties do. Not by recursion: a schema may be nested as deeply as its author likes."""
    left: list[tuple[Path | None, Any]] = [((), schema)]
    while left:
        path, part = left.pop()
        if not is_object(part):
            continue
        yield path, part
        for word, value in part.items():
            if word == "properties" and is_object(value):
                left += [(None if path is None else (*path, name), inner) for name, inner in value.items()]
            elif word in _ONE:
                left.append((None, value))
            elif word in _MANY and is_array(value):
                left += [(None, inner) for inner in value]
            elif word in _NAMED and is_object(value):
                left += [(None, inner) for inner in value.values()]


def argument_headers(headers: HeaderMap, arguments: Mapping[str, Any]) -> dict[str, str]:
    """The headers of a call that repeat its arguments. Those that it does not have, it does not repeat."""
    found: dict[str, str] = {}
    for path, name in headers.items():
        value: Any = arguments
        for step in path:
            value = value.get(step) if is_object(value) else None
        text = as_text(value)
        if text is not None:
            found[f"{PARAMETER}{name}"] = encoded(text)
    return found


def as_text(value: Any) -> str | None:
    """A value as a header has it, or None for one that no header can have."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, (str, int, float)):
        return None
    try:
        return str(value)
    except ValueError:
        return None  # a number of more digits than Python writes


def encoded(value: str) -> str:
    """A text as the value of a header: as it is where all of it arrives so, else in base64."""
    if _PRINTABLE.fullmatch(value) and value == value.strip() and not _ENCODED.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="
