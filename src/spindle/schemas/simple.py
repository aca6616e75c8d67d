"""Schemas of flat objects with plain values, as many tools have them. Whether a value fits one is seen at a
glance, without the library that checks all others, which takes 5 MB."""

from __future__ import annotations

from typing import Any, Final, Self

from spindle.domain.json_schema import JsonObject, is_array, is_object

_ANNOTATIONS: Final = frozenset({"$schema", "title", "description", "default", "examples", "deprecated"})
_KEYWORDS: Final = _ANNOTATIONS | {"type", "properties", "required", "additionalProperties"}
_NEWEST: Final = "https://json-schema.org/draft/2020-12/schema"
_SHORT: Final = 1024
_EXACT: Final = 2**53
_TYPES: Final = {"string": str, "integer": int, "boolean": bool, "number": float}


class SimpleSchema:
    """An object with fields of one type each."""

    def __init__(self, types: dict[str, type], required: frozenset[str], *, closed: bool) -> None:
        self._types = types
        self._required = required
        self._closed = closed

    @classmethod
    def of(cls, schema: JsonObject) -> Self | None:
        """None for any other schema."""
        if schema.get("type") != "object" or not schema.keys() <= _KEYWORDS:
            return None
        properties, required = schema.get("properties", {}), schema.get("required", [])
        extra = schema.get("additionalProperties", True)
        if not is_object(properties) or not is_array(required) or not isinstance(extra, bool):
            return None
        if schema.get("$schema", _NEWEST) != _NEWEST or len({*map(str, required)}) != len(required):
            return None
        types: dict[str, type] = {}
        for name, part in properties.items():
            if not is_object(part) or not part.keys() <= _ANNOTATIONS | {"type"} or "$schema" in part:
                return None
            kind = part.get("type")
            if not isinstance(kind, str) or kind not in _TYPES:
                return None
            types[name] = _TYPES[kind]
        if not all(isinstance(name, str) for name in required) or not _are_right(
            schema, *properties.values()
        ):
            return None
        return cls(types, frozenset(required), closed=not extra)

    def surely_fits(self, value: dict[str, Any]) -> bool:
        """True for an object that fits, is small, and can be sent as JSON as it is. Others may fit too."""
        if not self._required <= value.keys():
            return False
        for name, item in value.items():
            kind = self._types.get(name)
            if type(item) is not kind:
                return False
            if kind is str:
                if len(item) > _SHORT or not item.isascii():
                    return False
            elif kind is not bool and not -_EXACT < item < _EXACT:
                return False  # among them numbers that are none
        return True

    def plainly_accepts(self, value: Any) -> bool:
        """True for a value that fits. Others may fit too: 1.0 is an integer."""
        if not is_object(value) or not self._required <= value.keys():
            return False
        for name, item in value.items():
            kind = self._types.get(name)
            if kind is None:
                if self._closed:
                    return False
            elif type(item) is not kind and not (kind is float and type(item) is int):
                return False
        return True


def _are_right(*schemas: JsonObject) -> bool:
    """True if the annotations are of their types, without which a schema is refused."""
    texts = ("title", "description")
    return all(
        all(isinstance(schema.get(name, ""), str) for name in texts)
        and is_array(schema.get("examples", []))
        and isinstance(schema.get("deprecated", False), bool)
        for schema in schemas
    )
