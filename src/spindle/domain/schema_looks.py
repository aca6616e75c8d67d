"""Looks: schemas that have a say about parts of a value, counted without checking the value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from spindle.domain.json_schema import is_array, is_object
from spindle.domain.schema_graph import LEAF, Looks, Reach, SchemaNode
from spindle.giving_way import give_way

_BACKTRACKING: Final = 1000
"""The looks that one text is worth to a regular expression which backtracks."""
_MAX_CLOSURE: Final = 2_000
_MAX_ROUNDS: Final = 100
_MAX_OVERLAP: Final = 1000
_MAX_WORK: Final = 500_000
_MAX_PAIRS: Final = 250_000
"""Pairs of a schema and a part of a value that are counted: about 150 ms."""


# --- what applies to one value


def looks_of(start: SchemaNode) -> Looks | None:
    """Counts all that applies to the same value, references written out; None if it goes in a circle."""
    if start.looks is not None:
        return start.looks
    open_: set[int] = {id(start)}
    path = [(start, iter(start.here))]
    while path:
        node, others = path[-1]
        other = next(others, None)
        if other is not None:
            if id(other) in open_:
                return None
            if other.looks is None:
                open_.add(id(other))
                path.append((other, iter(other.here)))
            continue
        path.pop()
        open_.discard(id(node))
        inner = [other.looks for other in node.here if other.looks is not None]
        # Numbers that double with each definition stay small enough to add.
        node.looks = Looks(
            min(node.weight + sum(looks.count for looks in inner), 10**15),
            min(node.states + sum(looks.states for looks in inner), 10**15),
            min(node.backtracking + sum(looks.backtracking for looks in inner), 10**15),
            1 + max((looks.height for looks in inner), default=0),
        )
    return start.looks


# --- what applies to parts of it


def reach_of(root: SchemaNode) -> Reach:
    """Counts how often one part of a value is looked at, at most.

    A union of two schemas that both describe the property `next` looks twice at what is there; where `next`
    leads back to the union, four times one level below, and so on.
    """
    if root.reach is not None:
        return root.reach
    places = _places(root)
    if places is None:
        return Reach(None, 0, True)
    most = {key: _at_least(place.node) for key, place in places.items()}
    order = list(reversed(places))
    for _ in range(_MAX_ROUNDS):
        is_settled = True
        for key in order:
            place = places[key]
            known = before = most[key]
            anywhere = [node.reach or most[id(node)] for node in place.anywhere]
            if anywhere:
                known = _together(known, anywhere)
            for group in place.named:
                known = _together(known, [*anywhere, *[node.reach or most[id(node)] for node in group]])
            if known is not before:
                most[key], is_settled = known, False
        if is_settled:
            for key, place in places.items():
                place.node.reach = most[key]
            return most[id(root)]
    return Reach(None, 0, True)


@dataclass(frozen=True, slots=True)
class _Place:
    """A schema that applies to a value, and what it applies to the parts."""

    node: SchemaNode
    anywhere: list[SchemaNode]
    """Those that may apply to any part."""
    named: list[list[SchemaNode]]
    """Those that apply to one and the same part, for each part that has a name."""


def _places(root: SchemaNode) -> dict[int, _Place] | None:
    """The schemas that apply to a value or to parts and are not counted yet; None if there are too many."""
    places: dict[int, _Place] = {}
    waiting, work = [root], 0
    while waiting:
        node = waiting.pop()
        if id(node) in places or node.reach is not None:
            continue
        applied = list(_applied(node))
        anywhere = [inner for one in applied for inner in (*one.each, *one.names)]
        named: dict[str | int, list[SchemaNode]] = {}
        for one in applied:
            for name, inner in one.named.items():
                named.setdefault(name, []).append(inner)
        # Most properties are plain texts and numbers, which add nothing.
        groups = [group for group in named.values() if len(group) > 1 or group[0] is not LEAF]
        places[id(node)] = _Place(node, anywhere, groups)
        work += len(applied) + len(anywhere) * (1 + len(named))
        if len(applied) > _MAX_CLOSURE or work > _MAX_WORK:
            return None
        waiting += anywhere
        waiting += [inner for group in groups for inner in group]
    return places


def _at_least(place: SchemaNode) -> Reach:
    looks = looks_of(place) or Looks()
    return Reach(looks.count, looks.states, looks.backtracking > 0)


def _together(known: Reach, group: list[Reach]) -> Reach:
    """Returns what is known of a schema, with those that apply to the same part of its value."""
    total = 0
    overlap, states, backtracks = known.overlap, known.states, known.backtracks
    for inner in group:
        total += _MAX_OVERLAP if inner.overlap is None else inner.overlap
        states = max(states, inner.states)
        backtracks = backtracks or inner.backtracks
    if overlap is not None:
        overlap = None if total >= _MAX_OVERLAP else max(overlap, total)
    if overlap == known.overlap and states == known.states and backtracks == known.backtracks:
        return known
    return Reach(overlap, states, backtracks)


def _applied(node: SchemaNode) -> Iterator[SchemaNode]:
    """Yields what applies to the same value, as often as it does; a little more than can matter at most."""
    waiting = [node]
    for _ in range(_MAX_CLOSURE + 1):
        if not waiting:
            return
        node = waiting.pop()
        yield node
        waiting += node.here


def looks_at(root: SchemaNode, value: Any, limit: int) -> int:
    """Returns the looks that checking a value takes at most; more than `limit` if it is too much to count."""
    return _Counting(limit).of(root, value)


class _Counting:
    """Counts the looks at one value: each pair of a schema and a part once, however often it is met."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: dict[tuple[int, int], int] = {}

    def of(self, root: SchemaNode, value: Any) -> int:
        if not (is_object(value) or is_array(value)):
            return _for_scalar(root, value)
        waiting: list[tuple[SchemaNode, Any, bool]] = [(root, value, False)]
        work = 0
        while waiting:
            give_way()
            node, part, is_below_done = waiting.pop()
            key = id(node), id(part)
            if not is_below_done:
                if key in self._known:
                    continue
                waiting.append((node, part, True))
            work += min(len(node.named), len(part))
            total = node.weight + _for_names(node, part)
            for inner, item in _pairs(node, part):
                work += 1
                if not (is_object(item) or is_array(item)):
                    total += _for_scalar(inner, item)
                elif is_below_done:
                    total += self._known[id(inner), id(item)]
                elif (id(inner), id(item)) not in self._known:
                    waiting.append((inner, item, False))
            if is_below_done:
                self._known[key] = total
            if total > self._limit or work > _MAX_PAIRS:
                return self._limit + 1
        return self._known[id(root), id(value)]


def _pairs(node: SchemaNode, value: Any) -> Iterator[tuple[SchemaNode, Any]]:
    for inner in node.here:
        yield inner, value
    if is_object(value):
        # The fewer of the two: thousands of schemas may say nothing of an object of thousands.
        for name in node.named if len(node.named) < len(value) else value:
            if name in node.named and name in value:
                yield node.named[name], value[name]
    else:
        for index, inner in node.named.items():
            if isinstance(index, int) and index < len(value):
                yield inner, value[index]
    for inner in node.each:
        for item in value.values() if is_object(value) else value:
            yield inner, item


def _for_names(node: SchemaNode, value: Any) -> int:
    """The looks at the names of an object, which patterns may be tried on."""
    if not is_object(value) or not (node.names or "patternProperties" in node.schema):
        return 0
    total = sum(_for_scalar(inner, str(name)) for inner in node.names for name in value)
    if "patternProperties" in node.schema:
        length = sum(map(len, map(str, value)))
        total += node.states * length // 4 + len(value) * (1 + node.backtracking * _BACKTRACKING)
    return total


def _for_scalar(node: SchemaNode, value: Any) -> int:
    looks = node.looks or looks_of(node)
    assert looks is not None, "its problem was not asked for"
    if not isinstance(value, str):
        return looks.count
    return looks.count + looks.states * len(value) // 4 + looks.backtracking * _BACKTRACKING
