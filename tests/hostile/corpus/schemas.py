"""Schemas of tools that attack whoever compiles them, checks values against them or shows them.

`SCHEMAS` has a `HostileSchema` for each: its `name`, the `schema()`, made anew for each call, and `ends`:

- "refused":  a tool with it cannot be used: discovery leaves that tool out, with a reason;
- "costly":   it may be used, and `value()` would take too long to check: the call is refused, with a reason;
- "harmless": it may be used, and checking `value()` takes little, whether it fits or not.

Each is the schema of an object, and so may be that of a tool's arguments or of its structured result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Schema = dict[str, Any]
Ends = Literal["refused", "costly", "harmless"]


@dataclass(frozen=True)
class HostileSchema:
    name: str
    ends: Ends
    make: Callable[[], Schema]
    value: Callable[[], Any] = dict

    def schema(self) -> Schema:
        return self.make()

    def __str__(self) -> str:
        return self.name


SCHEMAS: list[HostileSchema] = []


def _add(ends: Ends, cases: dict[str, Callable[[], Schema]], value: Callable[[], Any] = dict) -> None:
    SCHEMAS.extend(HostileSchema(name, ends, make, value) for name, make in cases.items())


def nest(count: int, name: str = "next", inner: Any = None) -> Any:
    """An object in an object in an object."""
    value: Any = {} if inner is None else inner
    for _ in range(count):
        value = {name: value}
    return value


def _in_schema(count: int, wrap: Callable[[Schema], Schema]) -> Schema:
    schema: Schema = {"type": "object"}
    for _ in range(count):
        schema = wrap(schema)
    return schema


def _definitions(count: int, wrap: Callable[[Schema, Schema], Schema], key: str = "$defs") -> Schema:
    """Definitions of which each is made of two references to the one before."""
    made: Schema = {"d0": {"type": "object"}}
    for index in range(1, count):
        one = {"$ref": f"#/{key}/d{index - 1}"}
        made[f"d{index}"] = wrap(one, dict(one))
    return {key: made, "$ref": f"#/{key}/d{count - 1}"}


_add(
    "refused",
    {
        **{
            f"forty definitions doubled by {keyword}": lambda keyword=keyword: _definitions(
                40, lambda one, other: {keyword: [one, other]}
            )
            for keyword in ("allOf", "anyOf", "oneOf")
        },
        "thirty definitions doubled by if and then": lambda: _definitions(
            30, lambda one, other: {"if": one, "then": other}
        ),
        "thirty definitions doubled by not": lambda: _definitions(
            30, lambda one, other: {"not": one, **other}
        ),
        "thirty definitions doubled by dependentSchemas": lambda: _definitions(
            30, lambda one, other: {"dependentSchemas": {"a": one, "b": other}}
        ),
        "thirty definitions doubled in draft 7": lambda: {
            "$schema": "http://json-schema.org/draft-07/schema#",
            **_definitions(30, lambda one, other: {"dependencies": {"a": one, "b": other}}, "definitions"),
        },
        "thirty definitions doubled by what is not evaluated": lambda: _definitions(
            30, lambda one, _: {"allOf": [one], "unevaluatedProperties": False}
        ),
        "thirty definitions doubled by anchors": lambda: {
            "$defs": {"n0": {"$anchor": "a0"}}
            | {f"n{i}": {"$anchor": f"a{i}", "allOf": [{"$ref": f"#a{i - 1}"}] * 2} for i in range(1, 31)},
            "$ref": "#a30",
        },
        "thirty definitions doubled by dynamic anchors": lambda: {
            "$defs": {"n0": {"$dynamicAnchor": "a0"}}
            | {
                f"n{i}": {"$dynamicAnchor": f"a{i}", "anyOf": [{"$dynamicRef": f"#a{i - 1}"}] * 2}
                for i in range(1, 31)
            },
            "$dynamicRef": "#a30",
        },
        "thirty definitions doubled by their addresses": lambda: {
            "$id": "https://a.example/root",
            "$defs": {"n0": {"$id": "d0"}}
            | {f"n{i}": {"$id": f"d{i}", "allOf": [{"$ref": f"d{i - 1}"}] * 2} for i in range(1, 31)},
            "$ref": "d30",
        },
        "thirty definitions doubled elsewhere": lambda: {
            "x-hidden": {"d0": {}}
            | {f"d{i}": {"oneOf": [{"$ref": f"#/x-hidden/d{i - 1}"}] * 2} for i in range(1, 31)},
            "$ref": "#/x-hidden/d30",
        },
        "eight definitions, each twenty times the one before": lambda: {
            "$defs": {"d0": {}}
            | {f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i - 1}"}] * 20} for i in range(1, 8)},
            "$ref": "#/$defs/d7",
        },
        "a property that is doubled": lambda: {
            **_definitions(30, lambda one, other: {"allOf": [one, other]}),
            "$ref": "#",
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/d29"}},
        },
        "itself": lambda: {"$ref": "#"},
        "two that are each other": lambda: {
            "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}},
            "$ref": "#/$defs/a",
        },
        "itself by choice": lambda: {"type": "object", "anyOf": [{"$ref": "#"}, {"type": "null"}]},
        "a thousand references in a row": lambda: _definitions(1000, lambda one, _: one),
        "ten thousand references in a row by allOf": lambda: _definitions(
            10_000, lambda one, _: {"allOf": [one]}
        ),
        "a hundred choices in choices": lambda: _definitions(100, lambda one, _: {"anyOf": [one]}),
        "properties in properties, a thousand": lambda: _in_schema(
            1000, lambda inner: {"properties": {"a": inner}}
        ),
        "items in items, five hundred": lambda: _in_schema(500, lambda inner: {"items": inner}),
        "allOf in allOf, five hundred": lambda: _in_schema(500, lambda inner: {"allOf": [inner]}),
        "not in not, two hundred": lambda: _in_schema(200, lambda inner: {"not": inner}),
        "a default that is deep": lambda: {"type": "object", "default": nest(500)},
        "an example that is deep": lambda: {"type": "object", "examples": [nest(500)]},
        "three hundred thousand choices": lambda: {
            "type": "object",
            "properties": {"a": {"enum": list(range(300_000))}},
        },
        "a hundred and twenty thousand properties": lambda: {
            "type": "object",
            "properties": {f"p{n}": {"type": "string"} for n in range(120_000)},
        },
        "thirty thousand parts of allOf": lambda: {"type": "object", "allOf": [{"type": "object"}] * 30_000},
        "twelve thousand definitions in a chain": lambda: _definitions(
            12_000, lambda one, _: {"properties": {"a": one}}
        ),
        "a pattern that repeats a repeat": lambda: {
            "type": "object",
            "properties": {"a": {"pattern": "(a{1000}){1000}"}},
        },
        "a pattern that repeats letters of all languages": lambda: {
            "type": "object",
            "properties": {"a": {"pattern": r"\\p{L}{1000}".replace("\\\\", "\\")}},
        },
        "a pattern without end": lambda: {"type": "object", "properties": {"a": {"pattern": "a" * 20_000}}},
        "a thousand large patterns": lambda: {
            "type": "object",
            "properties": {f"p{n}": {"pattern": f"(a{{40}}){{40}}{n}"} for n in range(1000)},
        },
        "patterns for names that repeat a repeat": lambda: {
            "type": "object",
            "patternProperties": {"(a{1000}){1000}": {}},
        },
        "a pattern that is none": lambda: {"type": "object", "properties": {"a": {"pattern": "("}}},
        "forty addresses": lambda: {
            "type": "object",
            "$defs": {f"d{n}": {"$id": f"https://a.example/{n}"} for n in range(40)},
        },
        "a reference elsewhere": lambda: {
            "type": "object",
            "properties": {"a": {"$ref": "https://a.example/x.json"}},
        },
        "a reference to a file": lambda: {
            "type": "object",
            "properties": {"a": {"$ref": "file:///etc/passwd"}},
        },
        "a reference to nothing": lambda: {"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}},
        "a type that is none": lambda: {"type": "objekt"},
        "properties that are a list": lambda: {"type": "object", "properties": ["a"]},
        "a required that is a number": lambda: {"type": "object", "required": 5},
        "a negative length": lambda: {"type": "object", "properties": {"a": {"minLength": -1}}},
    },
)

_UNION: Schema = {"anyOf": [{"properties": {"next": {"$ref": "#"}}}, {"properties": {"next": {"$ref": "#"}}}]}

_add(
    "costly",
    {
        "a union that leads back to itself twice": lambda: {"type": "object", **_UNION},
        "a union that leads back to itself twice, all of it": lambda: {
            "type": "object",
            "allOf": _UNION["anyOf"],
        },
        "a union that leads back to itself twice, one of it": lambda: {
            "type": "object",
            "oneOf": [
                {"properties": {"next": {"$ref": "#"}}, "required": [name]}
                for name in ("left", "right", "next")
            ],
        },
        "names and patterns that lead back": lambda: {
            "type": "object",
            "properties": {"next": {"$ref": "#"}},
            "patternProperties": {"^n": {"$ref": "#"}, "t$": {"$ref": "#"}},
        },
        "other properties that lead back": lambda: {
            "type": "object",
            "allOf": [{"additionalProperties": {"$ref": "#"}}, {"additionalProperties": {"$ref": "#"}}],
        },
        "properties that are not evaluated and lead back": lambda: {
            "type": "object",
            "allOf": [{"properties": {"next": {"$ref": "#"}}}],
            "unevaluatedProperties": False,
        },
    },
    lambda: nest(60),
)
SCHEMAS.extend(
    [
        HostileSchema(
            "a pattern that looks ahead, for ten thousand texts",
            "costly",
            lambda: {"type": "object", "properties": {"a": {"items": {"pattern": r"^(?=a)(a|a)*(?!c)b$"}}}},
            lambda: {"a": ["a" * 40] * 10_000},
        ),
        HostileSchema(
            "a pattern that refers back, for ten thousand texts",
            "costly",
            lambda: {"type": "object", "properties": {"a": {"items": {"pattern": r"^(a|a)*\1b$"}}}},
            lambda: {"a": ["a" * 40] * 10_000},
        ),
        HostileSchema(
            "a large pattern for a long text",
            "costly",
            lambda: {"type": "object", "properties": {"a": {"pattern": "1[01]{1000}[25][^3]*[47]"}}},
            lambda: {"a": "01" * 500_000},
        ),
        HostileSchema(
            "thousands of objects compared with thousands of objects",
            "costly",
            lambda: {
                "type": "object",
                "properties": {"a": {"items": {"enum": [{"a": n} for n in range(3_000)]}}},
            },
            lambda: {"a": [{"a": -1}] * 10_000},
        ),
        HostileSchema(
            "four thousand schemas for ten thousand parts",
            "costly",
            lambda: {
                "type": "object",
                "additionalProperties": {"anyOf": [{"const": n} for n in range(4_000)]},
            },
            lambda: {f"p{n}": "x" for n in range(10_000)},
        ),
    ]
)

_add(
    "harmless",
    {
        "definitions that double through properties": lambda: _definitions(
            40, lambda one, other: {"properties": {"left": one, "right": other}}
        ),
        "a tree": lambda: {"type": "object", "properties": {"left": {"$ref": "#"}, "next": {"$ref": "#"}}},
        "a list of itself": lambda: {"type": "object", "additionalProperties": {"items": {"$ref": "#"}}},
        "a pattern that would backtrack elsewhere": lambda: {
            "type": "object",
            "properties": {"a": {"pattern": "^(a+)+$"}},
        },
        "a huge length": lambda: {"type": "object", "properties": {"a": {"minLength": 10**400}}},
        "a huge number": lambda: {
            "type": "object",
            "properties": {"a": {"minimum": 10**300, "multipleOf": 1e-300}},
        },
        "items without end that are unique": lambda: {
            "type": "object",
            "additionalProperties": {"uniqueItems": True},
        },
        "ten thousand choices": lambda: {
            "type": "object",
            "properties": {"a": {"enum": list(range(10_000))}},
        },
        "a thousand properties": lambda: {
            "type": "object",
            "properties": {f"p{n}": {"type": "string"} for n in range(1000)},
        },
        "a description without end": lambda: {"type": "object", "description": "x" * 1_000_000},
        "a dialect of nobody": lambda: {"$schema": "https://a.example/none", "type": "object"},
        "names that are pointers": lambda: {
            "type": "object",
            "properties": {"~0~1/$ref#": {"$ref": "#/$defs/a~1b"}},
            "$defs": {"a/b": {"type": "string"}},
        },
        "a format that nobody knows": lambda: {
            "type": "object",
            "properties": {"a": {"format": "x" * 10_000}},
        },
        "a property called $ref": lambda: {"type": "object", "properties": {"$ref": {"type": "string"}}},
        "what fits nothing": lambda: {"type": "object", "not": {}},
    },
    lambda: nest(60),
)
