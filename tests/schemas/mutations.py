"""Published schemas of tools, broken at random places as their authors break them, and otherwise."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from spindle.schemas.keywords import FORMS, LISTS, MAPS, REFERENCES, SINGLE

PUBLISHED: dict[str, Any] = json.loads(Path(__file__).with_name("published.json").read_text())
"""The schemas of tools as 10 published servers list them, with their texts cut short."""

WRITTEN: dict[str, Any] = {
    "a tree": {
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/node"}},
        "$defs": {
            "node": {
                "type": "object",
                "properties": {"next": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            }
        },
        "unevaluatedProperties": False,
    },
    "branches": {
        "type": "object",
        "oneOf": [
            {"$ref": "#/definitions/card"},
            {"properties": {"iban": {"type": "string", "pattern": "^[A-Z]{2}"}}, "required": ["iban"]},
        ],
        "definitions": {"card": {"properties": {"number": {"type": "string"}}, "required": ["number"]}},
    },
    "a pair of draft 7": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "pair": {"type": "array", "items": [{"type": "string"}, {"$ref": "#/properties/pair/items/0"}]},
            "at": {"$id": "#when", "type": "string", "format": "date-time"},
            "until": {"$ref": "#when"},
        },
        "dependencies": {"at": ["until"], "pair": {"required": ["at"]}},
    },
    "bounds of draft 4": {
        "type": "object",
        "properties": {"n": {"type": "number", "minimum": 0, "exclusiveMinimum": True}},
        "patternProperties": {"^x-": {"type": "string"}},
        "additionalProperties": False,
    },
    "conditions": {
        "type": "object",
        "properties": {"kind": {"enum": ["a", "b"]}, "size": {"type": "integer", "minimum": 1}},
        "if": {"properties": {"kind": {"const": "a"}}},
        "then": {"required": ["size"]},
        "not": {"required": ["never"]},
    },
    "an address": {
        "$id": "https://example.com/schemas/order.json",
        "type": "object",
        "properties": {"buyer": {"$ref": "order.json#/$defs/person"}, "seller": {"$ref": "#human"}},
        "$defs": {
            "person": {"$anchor": "human", "type": "object", "properties": {"odd name $": {"type": "string"}}}
        },
    },
    "odd names": {
        "type": "object",
        "properties": {"$filter": {"type": "string"}, "filter[name]": True, "x" * 80: {"type": "array"}},
        "required": ["$filter"],
    },
}

REAL = {**PUBLISHED, **WRITTEN}

KEYWORDS = sorted(
    {*FORMS, *SINGLE, *LISTS, *MAPS, *REFERENCES, "pattern", "dependencies", "$schema", "const"}
)
_JUNK: list[Any] = [
    None, True, False, 0, -1, 1.5, "", "string", "strng", "int", "any", "[", "(?P<a>b)", "#/nowhere", "#",
    "#human",
    "#/properties", "#/$defs/node", "https://example.com/x.json", "https://example.com/own-dialect",
    "http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-04/schema#", "a b", [], {}, [{}],
    ["a", "a"], ["string", "int"], [1], {"a": 5}, {"[": {}}, {"type": "strng"}, {"$ref": "#/gone"},
    {"pattern": "("},
    [{"type": "strng"}, {"type": "object"}], {"a": {"$ref": "#"}}, [[]], {"properties": []},
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] + [place for key, part in inside for place in places(part, (*path, key))]


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


@st.composite
def broken_schemas(draw: st.DrawFn) -> dict[str, Any]:
    """A real schema with up to five mutations."""
    schema = copy.deepcopy(REAL[draw(st.sampled_from(sorted(REAL)))])
    for _ in range(draw(st.integers(1, 5))):
        path = draw(st.sampled_from(places(schema)))
        node, junk = at(schema, path), copy.deepcopy(draw(st.sampled_from(_JUNK)))
        if isinstance(node, dict) and draw(st.booleans()):
            node[draw(st.sampled_from(KEYWORDS))] = junk
        elif path and draw(st.integers(0, 5)):
            at(schema, path[:-1])[path[-1]] = junk
        elif path:
            del at(schema, path[:-1])[path[-1]]
    return schema
