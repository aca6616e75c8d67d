"""Schemas moved into a larger document: what they refer to within themselves is found there too."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

from spindle.domain.definitions import Definitions
from spindle.domain.json_schema import JsonObject, is_array, is_object
from spindle.domain.tool import Tool

COMPONENTS = "#/components/schemas/"

Rename = Callable[[str], str]
Side = Literal["input", "output"]

_SINGLE = frozenset({
    "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
    "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
})  # fmt: skip
_LISTS = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
_MAPS = frozenset({
    "$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties",
})  # fmt: skip
_DEFINITION = re.compile(r"#/\$defs/([A-Za-z0-9_.-]+)")
_ILLEGAL = re.compile(r"[^A-Za-z0-9_.-]+")


def moved(schema: JsonObject, to: str) -> JsonObject:
    """The schema for a place in another document, which `to` points at."""
    whole = {key: value for key, value in schema.items() if key not in ("$schema", "$id", "id")}
    return _rewritten(whole, lambda reference: to + reference.removeprefix("#"))


class Components:
    """The schemas of a document, each once, however many tools refer to it."""

    def __init__(self) -> None:
        self.schemas: JsonObject = {}
        self._names: dict[tuple[str, str, bytes], str] = {}
        self._plain: dict[int, tuple[Definitions, bool]] = {}
        self._waiting: list[tuple[str, Tool, Definitions, JsonObject]] = []

    def place(self, tool: Tool, side: Side) -> JsonObject:
        """A schema of the tool for this document."""
        schema = tool.spec.usable_input if side == "input" else tool.spec.usable_output or {}
        if not (self._is_plain(schema) and self._are_plain(tool.spec.definitions)):
            # It refers to a part of itself, so it is kept in one piece.
            name = self._free_name(f"{tool.name}.{side}")
            self.schemas[name] = {}
            whole = tool.input_schema if side == "input" else tool.output_schema or {}
            self.schemas[name] = moved(whole, COMPONENTS + name)
            return {"$ref": COMPONENTS + name}
        own = schema.get("$defs")
        shared = tool.spec.definitions
        if is_object(own):
            definitions = Definitions({**(shared.schemas if shared else {}), **own})
        else:
            definitions = shared or Definitions({})
        bare = {key: value for key, value in schema.items() if key not in ("$defs", "$schema", "$id")}
        placed = _rewritten(bare, self._rename(tool, definitions))
        while self._waiting:
            name, owner, known, waiting = self._waiting.pop()
            self.schemas[name] = _rewritten(waiting, self._rename(owner, known))
        return placed

    @staticmethod
    def _is_plain(schema: Any) -> bool:
        """True if the schema refers only to its own definitions."""
        found: list[str] = []
        _rewritten(schema, lambda reference: found.append(reference) or reference)
        return all(_DEFINITION.fullmatch(reference) for reference in found)

    def _are_plain(self, shared: Definitions | None) -> bool:
        """Looked at once for all tools that share them."""
        if shared is None:
            return True
        known = self._plain.get(id(shared))
        if known is None:
            known = self._plain[id(shared)] = shared, all(map(self._is_plain, shared.schemas.values()))
        return known[1]

    def _rename(self, tool: Tool, definitions: Definitions) -> Rename:
        def rename(reference: str) -> str:
            match = _DEFINITION.fullmatch(reference)
            return COMPONENTS + self._component(tool, definitions, match[1]) if match else reference

        return rename

    def _component(self, tool: Tool, definitions: Definitions, definition: str) -> str:
        key = (tool.source, definition, definitions.digest_of([definition]))
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = self._free_name(f"{tool.source}.{definition}")
            # A reference that leads nowhere says nothing about the value.
            self.schemas[name] = {}
            self._waiting.append((name, tool, definitions, definitions.schemas.get(definition, {})))
        return name

    def _free_name(self, wanted: str) -> str:
        legal = _ILLEGAL.sub("_", wanted)
        name, number = legal, 1
        while name in self.schemas:
            number += 1
            name = f"{legal}_{number}"
        return name


def _rewritten(schema: Any, rename: Rename) -> Any:
    """A copy in which references are renamed. Values that are no schemas, such as examples, stay."""
    if not is_object(schema):
        return schema
    copy: JsonObject = {}
    for key, value in schema.items():
        if key in ("$ref", "$dynamicRef") and isinstance(value, str) and value.startswith("#"):
            copy[key] = rename(value)
        elif key in _MAPS and is_object(value):
            copy[key] = {name: _inner(item, rename) for name, item in value.items()}
        elif key in _LISTS and is_array(value):
            copy[key] = [_inner(item, rename) for item in value]
        elif key in _SINGLE:
            copy[key] = _inner(value, rename)
        else:
            copy[key] = value
    return copy


def _inner(schema: Any, rename: Rename) -> Any:
    if is_object(schema) and isinstance(schema.get("$id"), str):
        return schema  # a document of its own, whose references do not leave it
    return _rewritten(schema, rename)
