"""The work that a JSON Schema makes, counted before anything compiles it or checks a value against it.

A schema of a kilobyte can say that a value must fit forty definitions, each twice the one before: checking
`{}` would take hours, and neither a timeout nor a thread helps, as the library that checks holds the
interpreter. What is counted is looks: one schema that has a say about one part of a value, about 25 ns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from spindle.domain.json_schema import JsonObject, is_object
from spindle.domain.pattern_cost import MAX_LENGTH, states_of
from spindle.domain.schema_graph import MAX_RESOURCES, SchemaGraph, SchemaNode, parts_in, patterns_of
from spindle.domain.schema_looks import looks_at, looks_of, reach_of
from spindle.giving_way import give_way

MAX_PARTS: Final = 200_000
"""Members of all objects and lists of a schema, with the definitions it reaches: half a second to compile."""

MAX_DEPTH: Final = 100
"""Levels of objects and lists. Real schemas have up to 30, and the library that compiles them ends at 255."""

MAX_SCHEMAS: Final = 20_000
"""Schemas that may have a say about one value. The unions of real APIs have up to some hundreds."""

MAX_HEIGHT: Final = 50
"""Schemas that lead to each other, one through the other, about one value. The library that checks calls
itself for each, at every level of the value, and ends the process where the stack does."""

MAX_DEFINITIONS: Final = 10_000
"""Schemas that are referred to. A chain of so many takes a third of a second to compile, twice as many four
times that."""

MAX_STATES: Final = 500_000
"""States of all regular expressions of a schema: about 50 ms to compile."""

CIRCLE: Final = "a part of it is defined by nothing but itself"

_PLAIN_OVERLAP: Final = 64
_PLAIN_STATES: Final = 24


def check_schema(schema: Any, shared: Mapping[str, JsonObject] | None = None) -> str | None:
    """Returns why a tool with this schema cannot be used, or None. Takes time in proportion to the schema.

    `shared` holds what it refers to as `#/$defs/…` without holding it. For many tools that share definitions,
    ask one `SchemaCosts`, which looks at each definition once.
    """
    return SchemaCosts(shared).of(schema).problem


def too_large(schema: JsonObject) -> str | None:
    """Returns why a schema is too large or too deep to be looked at, or None."""
    return _measure(schema, with_patterns=False).problem


class SchemaCosts:
    """Counts the work of the schemas of a source. Each definition that they share is looked at once."""

    def __init__(self, shared: Mapping[str, JsonObject] | None = None) -> None:
        self._graph = SchemaGraph(shared)
        self._definitions: dict[str, _Measure] = {}
        self._all: _Measure | None = None

    def of(self, schema: Any) -> SchemaCost:
        """Returns the work that a schema makes."""
        if not is_object(schema):
            odd = None if isinstance(schema, bool) else "it is neither an object nor true or false"
            return SchemaCost(odd, None)
        measure = _measure(schema)
        root = self._graph.root(schema) if measure.problem is None else None
        if measure.problem is None and root is None:
            return SchemaCost(f"more than {MAX_RESOURCES} of its parts have an `$id`", None)
        problem = measure.problem if root is None else self._problem(root, measure)
        return SchemaCost(problem, root if problem is None else None)

    def _problem(self, root: SchemaNode, measure: _Measure) -> str | None:
        problem, waiting = self._look_at(root, measure)
        if problem is not None or not waiting or self._would_fit_with_all(measure):
            return problem
        seen: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                definition = self._definition(name)
                if definition.problem is not None:
                    return f"its definition {name[:100]}: {definition.problem}"
                measure.add(definition)
                waiting += definition.others
        return measure.excess()

    def _would_fit_with_all(self, measure: _Measure) -> bool:
        """True if a schema has no problem even if it reaches all shared definitions, as with most sources:
        then nobody needs to know which ones it reaches."""
        if self._all is None:
            self._all = _Measure()
            for name in self._graph.shared:
                definition = self._definition(name)
                self._all.add(definition)
                self._all.problem = self._all.problem or definition.problem
        together = replace(measure)
        together.add(self._all)
        return self._all.problem is None and together.excess() is None

    def _definition(self, name: str) -> _Measure:
        found = self._definitions.get(name)
        if found is None:
            node = self._graph.definition(name)
            found = self._definitions[name] = _measure(node.schema)
            if found.problem is None:
                found.problem, found.others = self._look_at(node, found)
        return found

    def _look_at(self, start: SchemaNode, measure: _Measure) -> tuple[str | None, list[str]]:
        """Goes through a schema up to the shared definitions it refers to; returns its problem, and these."""
        shared: list[str] = []
        seen = {id(start)}
        waiting = [start]
        while waiting:
            give_way()
            node = waiting.pop()
            problem = _problem_here(node)
            if problem is not None:
                return problem, []
            for other in node.others():
                if id(other) not in seen:
                    seen.add(id(other))
                    if other.name is not None and self._graph.is_shared(other):
                        shared.append(other.name)
                    else:
                        waiting.append(other)
                        measure.definitions += other.name is not None
        return measure.excess(), shared


@dataclass(frozen=True, slots=True)
class SchemaCost:
    """The work that a schema makes."""

    problem: str | None
    """Why it cannot be used."""
    root: SchemaNode | None
    """None for one with a problem, and for `true` and `false`."""

    @property
    def is_plain(self) -> bool:
        """True if checking takes time in proportion to the value, with a small factor."""
        if self.root is None:
            return True
        reach = reach_of(self.root)
        small = reach.states <= _PLAIN_STATES and not reach.backtracks
        return small and reach.overlap is not None and reach.overlap <= _PLAIN_OVERLAP

    def looks(self, value: Any, limit: int) -> int:
        """Returns the looks that checking a value takes at most; more than `limit` also if that is too much
        to count."""
        return looks_at(self.root, value, limit) if self.root is not None else 1


# --- one schema by itself


@dataclass(slots=True)
class _Measure:
    """The counts of one schema or definition, without those that it shares with others."""

    parts: int = 0
    states: int = 0
    definitions: int = 0
    problem: str | None = None
    others: list[str] = field(default_factory=list[str])
    """The shared definitions that it refers to."""

    def add(self, definition: _Measure) -> None:
        """Counts a definition that it refers to."""
        self.parts += definition.parts
        self.states += definition.states
        self.definitions += definition.definitions + 1

    def excess(self) -> str | None:
        """Why it is too large."""
        if self.parts > MAX_PARTS:
            return f"it has more than {MAX_PARTS:,} parts, with all that it refers to"
        if self.states > MAX_STATES:
            return f"its regular expressions have more than {MAX_STATES:,} states"
        if self.definitions > MAX_DEFINITIONS:
            return f"it refers to more than {MAX_DEFINITIONS:,} definitions"
        return None


def _measure(schema: JsonObject, *, with_patterns: bool = True) -> _Measure:
    measure = _Measure()
    level: list[Any] = [schema]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for node in level:
            give_way()
            measure.parts += len(node)
            if with_patterns and is_object(node):
                for pattern in patterns_of(node):
                    if len(pattern) > MAX_LENGTH:
                        measure.problem = (
                            f"the pattern {pattern[:40]}… has more than {MAX_LENGTH:,} characters"
                        )
                        return measure
                    measure.states += states_of(pattern)
            below += parts_in(node)
        measure.problem = measure.excess()
        if not below or measure.problem:
            return measure
        level = below
    measure.problem = f"it is nested more than {MAX_DEPTH} levels deep"
    return measure


def _problem_here(node: SchemaNode) -> str | None:
    looks = looks_of(node)
    if looks is None:
        return CIRCLE
    if looks.height > MAX_HEIGHT:
        return f"more than {MAX_HEIGHT} schemas lead to each other about one value"
    if looks.count > MAX_SCHEMAS:
        return f"more than {MAX_SCHEMAS:,} schemas apply to one value, with references written out"
    return None
