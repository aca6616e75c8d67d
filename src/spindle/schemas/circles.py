"""Schemas that are defined by nothing but themselves: checking a value against them would never end."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Final

from spindle.domain.json_schema import JsonObject, is_array, is_object, resolve_pointer
from spindle.schemas.addresses import parts_of
from spindle.schemas.keywords import REFERENCES

_HERE: Final = ("not", "if", "then", "else")
_HERE_LISTS: Final = ("allOf", "anyOf", "oneOf")
_HERE_MAPS: Final = ("dependentSchemas", "dependencies")


def circular_references(root: JsonObject) -> set[int]:
    """Returns the ids of schemas whose references must go, so that none is defined by nothing but itself."""
    cut: set[int] = set()
    done: set[int] = set()
    # From the top: what holds a schema is looked at before it.
    starts: deque[Any] = deque([root])
    while starts:
        start = starts.popleft()
        if not is_object(start):
            continue
        starts += [part for _, part in parts_of(start)]
        if id(start) not in done:
            _follow(start, root, done, cut)
    return cut


def _follow(start: JsonObject, root: JsonObject, done: set[int], cut: set[int]) -> None:
    path: list[tuple[JsonObject, Iterator[tuple[JsonObject, bool]], JsonObject | None]] = [
        (start, _applied(start, root), None)
    ]
    open_ = {id(start): 0}
    while path:
        node, others, _ = path[-1]
        found = next(others, None)
        if found is None:
            path.pop()
            del open_[id(node)]
            done.add(id(node))
            continue
        other, is_reference = found
        if id(other) in open_:
            # The reference that closes the circle, or else the last one on the way round.
            way = [by for _, _, by in path[open_[id(other)] + 1 :] if by is not None]
            cut.add(id(node if is_reference else way[-1]))
        elif id(other) not in done:
            open_[id(other)] = len(path)
            path.append((other, _applied(other, root), node if is_reference else None))


def _applied(schema: JsonObject, root: JsonObject) -> Iterator[tuple[JsonObject, bool]]:
    """The schemas that apply to the same value, each with True if it is referred to."""
    for key in _HERE:
        if is_object(schema.get(key)):
            yield schema[key], False
    for key in (*_HERE_LISTS, *_HERE_MAPS):
        held: Any = schema.get(key)
        for part in held if is_array(held) else held.values() if is_object(held) else ():
            if is_object(part):
                yield part, False
    for key in REFERENCES:
        reference = schema.get(key)
        target = resolve_pointer(root, reference) if isinstance(reference, str) else None
        if is_object(target):
            yield target, True
