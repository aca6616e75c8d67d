"""The rules that the APIs of models have for tools, beside JSON Schema itself: what they refuse, they refuse
together with every other tool of the request."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs

from spindle.schemas.compiled import schema_problem
from spindle.schemas.keywords import LISTS, MAPS, NEWEST, SINGLE

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ARGUMENT = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
NOT_AT_THE_TOP = ("oneOf", "anyOf", "allOf", "enum", "not", "$ref")
MAX_SIZE = 128 * 1024
MAX_DEPTH = 100

_NEWEST = jsonschema_rs.validator_for({"$ref": NEWEST}, offline=True, validate_formats=True)


def invalid(schema: Any) -> str | None:
    """Why nobody can use a schema, or None: by the meta-schema, and by compiling it, references included."""
    if not _NEWEST.is_valid(schema):
        return "; ".join(error.message for error in _NEWEST.iter_errors(schema))
    return schema_problem(schema)


def refused(name: str, schema: Any) -> str | None:
    """Why OpenAI's or Anthropic's API would refuse a tool with this name and input schema, or None."""
    if not NAME.fullmatch(name):
        return f"the name {name!r}"
    if schema.get("type") != "object":
        return "the top is not an object"
    found = [key for key in NOT_AT_THE_TOP if key in schema]
    if found:
        return f"{found} at the top"
    odd = [name for name in schema.get("properties", {}) if not ARGUMENT.fullmatch(name)]
    if odd:
        return f"arguments called {odd}"
    for part in _parts(schema):
        if _is_list(part) and "items" not in part:
            return f"a list without items: {part}"
    if len(str(schema)) > 2 * MAX_SIZE:
        return "too large"
    if _depth(schema) > MAX_DEPTH:
        return "too deep"
    return invalid(schema)


def _is_list(schema: Any) -> bool:
    types = schema.get("type")
    return types == "array" or (isinstance(types, list) and "array" in types)


def _parts(schema: Any) -> Iterator[Any]:
    if not isinstance(schema, dict):
        return
    yield schema
    for key, value in schema.items():
        if key in SINGLE:
            yield from _parts(value)
        elif key in LISTS:
            for part in value:
                yield from _parts(part)
        elif key in MAPS:
            for part in value.values():
                assert isinstance(part, dict), "a property that is true or false"
                yield from _parts(part)


def _depth(value: Any) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inside), default=0)
