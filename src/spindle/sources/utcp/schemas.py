"""The schemas of a manual, freed of what UTCP's own models put into them."""

from __future__ import annotations

from typing import Any

from spindle.domain.json_schema import JsonObject, is_array, is_object

_SCHEMAS = frozenset(
    {"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"}
)
_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems", "items"})
_TABLES = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_MAY_BE_NULL = frozenset({"const", "default"})
MAX_DEPTH = 64


def plain(schema: Any, depth: int = 0) -> Any:
    """Returns the schema without keywords that are null. UTCP's models write every keyword that was left out
    as null, and `const: null` would then allow nothing but null."""
    if not is_object(schema) or depth > MAX_DEPTH:
        return schema
    # Where nothing else is null, `const: null` was meant.
    was_dumped = any(value is None for key, value in schema.items() if key not in _MAY_BE_NULL)
    kept: JsonObject = {}
    for key, value in schema.items():
        if value is None and (was_dumped or key not in _MAY_BE_NULL):
            continue
        if key in _TABLES and is_object(value):
            kept[key] = {name: plain(item, depth + 1) for name, item in value.items() if item is not None}
        elif key in _LISTS and is_array(value):
            kept[key] = [plain(item, depth + 1) for item in value]
        elif key in _SCHEMAS:
            kept[key] = plain(value, depth + 1)
        else:
            kept[key] = value
    return kept


def input_schema(schema: JsonObject) -> JsonObject:
    """Returns the schema of the arguments: always an object, even if the manual does not say so."""
    found = plain(schema)
    return {"type": "object", "properties": {}, **found} if found.get("type") in (None, "object") else found


def output_schema(schema: JsonObject, *, many: bool) -> JsonObject | None:
    """Returns the schema of the result. `many`: it is a list of what the manual describes."""
    found = plain(schema)
    if not found:
        return None
    if not many or found.get("type") == "array":
        return found
    # References lead to definitions from the top.
    shared = {key: found.pop(key) for key in ("$defs", "definitions") if key in found}
    return {"type": "array", "items": found, **shared}
