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
_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?")
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


def is_repeated(schema: Any) -> bool:
    """True if a call repeats some of its arguments as headers."""
    try:
        return bool(repeated_arguments(schema))
    except ValueError:
        return False


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
        text = as_text(_at(arguments, path))
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


def decoded(value: str | None) -> str | None:
    """The text that the value of a header stands for; None if there is none, or its base64 is not right."""
    if value is None or not _ENCODED.fullmatch(value):
        return value
    payload = value[len("=?base64?") : -len("?=")]
    try:
        found = base64.b64decode(payload, validate=True)
        # Only one form stands for each text.
        return found.decode() if base64.b64encode(found).decode() == payload else None
    except ValueError:
        return None


def wrong_header(schema: Any, arguments: Mapping[str, Any], headers: Mapping[str, str]) -> str | None:
    """Returns the mistake in the headers that repeat arguments of a call, as its tool's schema asks; None if
    there is none. `headers` are by name in lower case."""
    try:
        repeated = repeated_arguments(schema)
    except ValueError:
        return None  # clients do not offer such a tool
    for path, end in repeated.items():
        name, where = f"{PARAMETER}{end}", ".".join(path)
        given, value = headers.get(name.lower()), _at(arguments, path)
        text = as_text(value)
        if text is None and given is None:
            continue
        if value is None:
            return f"{name} header is present but the request body's {where!r} argument is absent"
        if given is None:
            return f"{name} header is missing but the request body's {where!r} argument is present"
        said = decoded(given)
        if text is not None and said is None:
            return f"{name} header carries a malformed base64 sentinel value"
        if text is None or said is None or not _is_same(_at(schema, _steps(path)), value, text, said):
            return f"{name} header does not match the request body's {where!r} argument"
    return None


def _at(value: Any, path: Path) -> Any:
    for step in path:
        value = value.get(step) if is_object(value) else None
    return value


def _steps(path: Path) -> Path:
    """The way through a schema to the schema of an argument."""
    return tuple(step for name in path for step in ("properties", name))


def _is_same(schema: Any, value: Any, text: str, said: str) -> bool:
    """True if a header says what an argument is. Integers are compared as numbers: 42 is 42.0."""
    is_whole = not isinstance(value, bool) and isinstance(value, (int, float)) and value == value // 1
    if schema.get("type") == "integer" and is_whole and _DECIMAL.fullmatch(said):
        whole, _, fraction = said.partition(".")
        try:
            return not fraction.strip("0") and int(whole) == int(value)
        except ValueError:
            return False  # more digits than Python reads
    return said == text
