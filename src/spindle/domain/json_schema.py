"""JSON and JSON Schema as data: canonical form, and what a schema says about its parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeGuard, cast

JsonObject = dict[str, Any]

EMPTY_OBJECT_SCHEMA: JsonObject = {"type": "object", "properties": {}}


def is_object(value: object) -> TypeGuard[JsonObject]:
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def canonical(value: Any) -> bytes:
    """One byte string for equal JSON values: keys sorted, no spaces, UTF-8."""
    return to_json(value, sort_keys=True)


def to_json(value: Any, *, sort_keys: bool = False) -> bytes:
    import orjson

    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS if sort_keys else None)
    except TypeError:
        # orjson refuses integers over 64 bits, which JSON itself allows.
        import json

        return json.dumps(value, sort_keys=sort_keys, separators=(",", ":"), ensure_ascii=False).encode()


def resolve_pointer(root: JsonObject, reference: str) -> Any:
    """What a local `#/...` reference points at, or None when it points nowhere."""
    from urllib.parse import unquote

    node: Any = root
    for raw in reference.removeprefix("#").split("/")[1:]:
        step = unquote(raw).replace("~1", "/").replace("~0", "~")
        if is_object(node) and step in node:
            node = node[step]
        elif is_array(node) and step.isdigit() and int(step) < len(node):
            node = node[int(step)]
        else:
            return None
    return node


def resolve(root: JsonObject, schema: Any) -> JsonObject:
    """Follow local references until a schema that is not one; `{}` when they lead nowhere."""
    for _ in range(32):
        if not is_object(schema):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#"):
            return schema
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        target = resolve_pointer(root, reference)
        schema = {**target, **rest} if is_object(target) else rest
    return {}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One top-level property of a tool's input, as a person or a flag parser sees it."""

    name: str
    schema: JsonObject
    required: bool
    types: frozenset[str]
    item_types: frozenset[str] = frozenset()

    @property
    def description(self) -> str:
        return str(self.schema.get("description") or self.schema.get("title") or "")

    @property
    def label(self) -> str:
        """A short name of the type: `integer`, `string[]`, `a|b|c`."""
        choices = self.schema.get("enum")
        if is_array(choices) and choices:
            return "|".join(str(choice) for choice in choices)
        if "array" in self.types and self.item_types:
            return "|".join(sorted(self.item_types)) + "[]"
        return "|".join(sorted(self.types - {"null"})) or "any"


def parameters(schema: JsonObject) -> list[Parameter]:
    """The top-level properties of an object schema, `allOf` parts included, in order."""
    found: dict[str, Any] = {}
    required: set[str] = set()
    for part in _object_parts(schema, schema, depth=0):
        properties = part.get("properties")
        if is_object(properties):
            found.update(properties)
        names = part.get("required")
        if is_array(names):
            required.update(str(name) for name in names)
    result: list[Parameter] = []
    for name, raw in found.items():
        resolved = resolve(schema, raw)
        items = resolved.get("items")
        result.append(
            Parameter(
                name=name,
                schema=resolved,
                required=name in required,
                types=types_of(schema, resolved),
                item_types=types_of(schema, items) if items is not None else frozenset(),
            )
        )
    return result


def _object_parts(root: JsonObject, schema: Any, depth: int) -> Iterator[JsonObject]:
    resolved = resolve(root, schema)
    yield resolved
    parts = resolved.get("allOf")
    if depth < 8 and is_array(parts):
        for part in parts:
            yield from _object_parts(root, part, depth + 1)


def types_of(root: JsonObject, schema: Any, depth: int = 0) -> frozenset[str]:
    """The JSON types a schema admits; empty when it does not say."""
    resolved = resolve(root, schema)
    declared = resolved.get("type")
    if isinstance(declared, str):
        return frozenset({declared})
    if is_array(declared):
        return frozenset(str(name) for name in declared)
    if "const" in resolved:
        return frozenset({type_of(resolved["const"])})
    choices = resolved.get("enum")
    if is_array(choices):
        return frozenset(type_of(choice) for choice in choices)
    found: set[str] = set()
    for keyword in ("anyOf", "oneOf", "allOf"):
        branches = resolved.get(keyword)
        if depth < 8 and is_array(branches):
            for branch in branches:
                found |= types_of(root, branch, depth + 1)
    if not found and "properties" in resolved:
        return frozenset({"object"})
    return frozenset(found)


def type_of(value: object) -> str:
    """The JSON type of a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case _:
            return "object"


def property_texts(schema: JsonObject, limit: int = 200) -> Iterator[str]:
    """Names and descriptions of all properties at any depth, for search. Bounded."""
    queue: list[Any] = [schema]
    seen = 0
    while queue and seen < limit:
        node = queue.pop(0)
        if is_array(node):
            queue.extend(node)
            continue
        if not is_object(node):
            continue
        seen += 1
        properties = node.get("properties")
        if is_object(properties):
            for name, value in properties.items():
                yield name
                if is_object(value) and isinstance(value.get("description"), str):
                    yield cast(str, value["description"])
        queue.extend(value for value in node.values() if is_object(value) or is_array(value))
