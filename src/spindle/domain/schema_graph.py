"""JSON Schemas as a graph: which schema applies to the same value as another, and which to its parts.

A definition is one node, however many refer to it. Where drafts differ in what a reference means, the graph
has all that it may mean: it is there to count with, and counting too much does less harm than too little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from spindle.domain.json_schema import JsonObject, is_array, is_object, resolve_pointer
from spindle.domain.pattern_cost import backtracks, states_of
from spindle.giving_way import give_way

MAX_RESOURCES: Final = 32
"""Parts with an `$id` of their own: each may be what a reference means."""

_HERE: Final = ("not", "if", "then", "else")
_HERE_LISTS: Final = ("allOf", "anyOf", "oneOf")
_HERE_MAPS: Final = ("dependentSchemas", "dependencies")
_EACH: Final = ("additionalProperties", "unevaluatedProperties", "unevaluatedItems", "items",
                "additionalItems", "contains")  # fmt: skip
_MAPS: Final = ("properties", "patternProperties", "$defs", "definitions", *_HERE_MAPS)
_VALUES: Final = ("enum", "const", "default", "examples", "example")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_TELLING: Final = frozenset((
    *_HERE, *_HERE_LISTS, *_HERE_MAPS, *_EACH, *_REFERENCES, "properties", "prefixItems", "patternProperties",
    "propertyNames", "pattern", "enum", "const", "required",
))  # fmt: skip
"""Keywords that make a difference here; a schema without any of them looks once at a value."""


class SchemaNode:
    """A schema, and those that it applies."""

    __slots__ = ("backtracking", "each", "here", "looks", "name", "named", "names", "reach", "schema",
                 "states", "weight")  # fmt: skip

    def __init__(self, schema: JsonObject) -> None:
        self.schema = schema
        self.name: str | None = None
        """The name of a definition that is referred to; that of a shared one is its key."""
        self.here: list[SchemaNode] = []
        """Those that apply to the same value."""
        self.named: dict[str | int, SchemaNode] = {}
        """Those that apply to one property, or to the item at one place."""
        self.each: list[SchemaNode] = []
        """Those that may apply to any part."""
        self.names: list[SchemaNode] = []
        """Those that apply to the names of properties."""
        patterns = list(patterns_of(schema))
        self.weight = _weight(schema)
        """The work for one value besides what other schemas say of it, in looks."""
        self.states = sum(map(states_of, patterns))
        self.backtracking = sum(map(backtracks, patterns))
        self.looks: Looks | None = None
        """The counts of it and of all that applies to the same value."""
        self.reach: Reach | None = None
        """The counts of it and of all that applies to the value and its parts."""

    def others(self) -> Iterator[SchemaNode]:
        """Yields those that apply, to the value or to parts of it."""
        yield from self.here
        yield from self.named.values()
        yield from self.each
        yield from self.names


@dataclass(slots=True)
class Looks:
    """The work for one value, in all schemas that apply to it."""

    count: int = 1
    states: int = 0
    backtracking: int = 0
    height: int = 1
    """The schemas that lead to each other, one through the other."""


@dataclass(slots=True)
class Reach:
    """The work for a value and its parts, as far as it is known without the value."""

    overlap: int | None
    """The looks at one part, at most; None if that grows with the depth of the value."""
    states: int
    """States of the regular expressions that apply to one text, at most."""
    backtracks: bool


class SchemaGraph:
    """The schemas of a source with the definitions that they share, each made a node once."""

    def __init__(self, shared: Mapping[str, JsonObject] | None = None) -> None:
        self.shared = shared or {}
        self._shared_nodes: dict[int, SchemaNode] = {}
        self._shared_anchors: dict[str, list[JsonObject]] | None = None

    def root(self, schema: JsonObject) -> SchemaNode | None:
        """Returns the node of a schema, with all that it reaches; None if too many parts have an `$id`.

        What belongs to it alone is not kept here."""
        resources, anchors = _addressed(schema)
        if len(resources) > MAX_RESOURCES:
            return None
        return self._build(schema, _Scope(schema, resources, anchors), "#")

    def _build(self, schema: JsonObject, scope: _Scope | None, name: str) -> SchemaNode:
        own: dict[int, SchemaNode] = {}
        # The scope is None in a shared definition.
        waiting: list[tuple[SchemaNode, _Scope | None]] = []

        def made(part: Any, scope: _Scope | None, name: str | None = None) -> list[SchemaNode]:
            if not is_object(part):
                return []
            nodes = self._shared_nodes if scope is None else own
            node = nodes.get(id(part))
            if node is None:
                if name is None and _TELLING.isdisjoint(part):
                    return [LEAF]
                node = nodes[id(part)] = SchemaNode(part)
                waiting.append((node, scope))
            node.name = node.name or name
            return [node]

        root = made(schema, scope, name)[0]
        while waiting:
            give_way()
            node, where = waiting.pop()
            _fill(node, lambda part, where=where: made(part, where))
            for its_name, target, its_scope in self._targets(node.schema, where):
                node.here += made(target, its_scope, its_name)
            if "unevaluatedProperties" in node.schema or "unevaluatedItems" in node.schema:
                # To know what was evaluated, all that applies here is gone through once more.
                node.here *= 2
        return root

    def definition(self, name: str) -> SchemaNode:
        """Returns the node of a shared definition."""
        return self._build(self.shared[name], None, name)

    def is_shared(self, node: SchemaNode) -> bool:
        """True for a definition that the schemas of the source share."""
        return node.name is not None and self.shared.get(node.name) is node.schema

    def _targets(self, schema: JsonObject, scope: _Scope | None) -> Iterator[tuple[str, Any, _Scope | None]]:
        for key in _REFERENCES:
            reference = schema.get(key)
            if not isinstance(reference, str):
                continue
            found = [] if scope is None else list(scope.find(reference))
            if found:
                yield from ((reference, target, scope) for target in found)
            elif reference.startswith("#/$defs/"):
                name = reference.removeprefix("#/$defs/")
                yield name, self.shared.get(name), None
            elif reference.startswith("#"):
                yield from ((reference, target, None) for target in self._anchored(reference[1:]))

    def _anchored(self, name: str) -> list[JsonObject]:
        if self._shared_anchors is None:
            _, self._shared_anchors = _addressed(dict(self.shared), are_definitions=True)
        return self._shared_anchors.get(name, [])


def patterns_of(schema: JsonObject) -> Iterator[str]:
    """Yields the regular expressions that a schema itself holds."""
    pattern, named = schema.get("pattern"), schema.get("patternProperties")
    if isinstance(pattern, str):
        yield pattern
    if is_object(named):
        yield from named


def parts_in(value: Any) -> list[Any]:
    """Returns the lists and objects directly in a list or object."""
    inside: Iterable[Any] = value.values() if is_object(value) else value
    return [item for item in inside if item.__class__ is dict or item.__class__ is list]


class _Scope:
    """The targets that references in one schema may have."""

    def __init__(
        self, root: JsonObject, resources: list[JsonObject], anchors: dict[str, list[JsonObject]]
    ) -> None:
        self._resources = resources if any(root is one for one in resources) else [root, *resources]
        self._anchors = anchors

    def find(self, reference: str) -> Iterator[JsonObject]:
        address, _, fragment = reference.partition("#")
        resources = self._resources
        if address:
            last = _last_step(address)
            named = [one for one in resources if _last_step(str(_id_of(one))) == last]
            if not named and "://json-schema.org/" in address:
                return
            resources = named or resources
        if fragment and not fragment.startswith("/"):
            yield from self._anchors.get(fragment, [])
            return
        seen: set[int] = set()
        for resource in resources:
            target = resolve_pointer(resource, f"#{fragment}")
            if is_object(target) and id(target) not in seen:
                seen.add(id(target))
                yield target


def _last_step(address: str) -> str:
    return address.rstrip("/#").rpartition("/")[2]


def _id_of(schema: JsonObject) -> Any:
    return schema.get("$id", schema.get("id"))


def _addressed(
    root: JsonObject, *, are_definitions: bool = False
) -> tuple[list[JsonObject], dict[str, list[JsonObject]]]:
    """The parts of a schema with an `$id`, and those with an anchor by its name. Examples and other values
    have neither, whatever is in them."""
    is_old = any(draft in str(root.get("$schema")) for draft in ("draft-03", "draft-04"))
    resources: list[JsonObject] = []
    anchors: dict[str, list[JsonObject]] = {}
    waiting: list[tuple[Any, bool]] = [(root, are_definitions)]
    while waiting:
        give_way()
        node, is_map = waiting.pop()
        if not is_object(node):
            waiting += [(item, False) for item in parts_in(node)]
            continue
        if not is_map:
            own = node.get("id" if is_old else "$id")
            if isinstance(own, str):
                if own.startswith("#"):
                    anchors.setdefault(own[1:], []).append(node)
                else:
                    resources.append(node)
            for key in ("$anchor", "$dynamicAnchor"):
                if isinstance(node.get(key), str):
                    anchors.setdefault(node[key], []).append(node)
        waiting += [
            (value, not is_map and key in _MAPS)
            for key, value in node.items()
            if (value.__class__ is dict or value.__class__ is list) and (is_map or key not in _VALUES)
        ]
    return resources, anchors


def _fill(node: SchemaNode, made: Callable[[Any], list[SchemaNode]]) -> None:
    schema = node.schema
    for key, value in schema.items():
        if key in _HERE:
            node.here += made(value)
        elif key in _HERE_LISTS:
            for part in value if is_array(value) else ():
                node.here += made(part)
        elif key in _HERE_MAPS and is_object(value):
            for part in value.values():
                node.here += made(part)
        elif key == "properties" and is_object(value):
            for name, part in value.items():
                for inner in made(part):
                    node.named[name] = inner
        elif key == "prefixItems" or (key == "items" and is_array(value)):
            for index, part in enumerate(value if is_array(value) else ()):
                for inner in made(part):
                    node.named[index] = inner
        elif key in _EACH:
            node.each += made(value)
        elif key == "patternProperties" and is_object(value):
            for part in value.values():
                node.each += made(part)
        elif key == "propertyNames":
            node.names += made(value)


def _weight(schema: JsonObject) -> int:
    weight = 1
    choices = schema.get("enum")
    # Texts and numbers are looked up; lists and objects are compared one after the other.
    compared = [*(parts_in(choices) if is_array(choices) else ()), *parts_in([schema.get("const")])]
    while compared:
        value = compared.pop()
        weight += 3 * len(value) + 3
        compared += parts_in(value)
    required = schema.get("required")
    return weight + (len(required) // 5 if is_array(required) else 0)


LEAF: Final = SchemaNode({})
LEAF.looks = Looks()
LEAF.reach = Reach(1, 0, False)
