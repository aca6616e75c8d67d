"""Schemas that are defined by nothing but each other: checking a value against them would never end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from spindle.domain.json_schema import JsonObject, is_array, is_object

_SAME_VALUE: Final = ("allOf", "anyOf", "oneOf")
_SHOWN: Final = 12
"""Definitions of a circle that are named."""


def circles(definitions: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yields the references by which schemas are defined by nothing but each other: the definition that
    refers, the one it refers to, and the way round. Without these references there is no circle."""
    done: set[str] = set()
    for start in definitions:
        path: dict[str, None] = {}
        ways = [iter([start])]
        while ways:
            name = next(ways[-1], None)
            if name is None:
                ways.pop()
                if path:
                    done.add(path.popitem()[0])
            elif name in path:
                last = next(reversed(path))
                yield last, name, _way_round(path, name)
            elif name not in done:
                path[name] = None
                ways.append(_definitions_of(definitions.get(name)))


def _way_round(path: dict[str, None], name: str) -> str:
    back: list[str] = [name]
    for other in reversed(path):
        back.append(other)
        if other == name:
            break
        if len(back) > _SHOWN:
            return f"{name} → … → {' → '.join(reversed(back[:3]))}"
    return " → ".join(reversed(back))


def _definitions_of(schema: Any) -> Iterator[str]:
    """Yields the definitions that each value of a schema must fit itself, and not only a part of it."""
    for node in of_the_same_value(schema):
        if isinstance(reference := node.get("$ref"), str):
            yield reference.removeprefix("#/$defs/")


def of_the_same_value(schema: Any) -> list[JsonObject]:
    """Returns a schema and those inside that a value must fit as a whole."""
    found = [schema] if is_object(schema) else []
    for node in found:
        for key in _SAME_VALUE:
            if is_array(node.get(key)):
                found += [part for part in node[key] if is_object(part)]
    return found
