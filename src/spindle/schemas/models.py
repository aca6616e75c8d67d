"""Schemas of tools in the shape that the APIs of models take."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from spindle.domain.json_schema import EMPTY_OBJECT_SCHEMA, JsonObject, is_array, is_object, resolve
from spindle.domain.names import served_names
from spindle.domain.visible import visible
from spindle.ports.list_budget import size_of
from spindle.schemas.addresses import Definition, references
from spindle.schemas.keywords import LISTS, MAPS, SINGLE
from spindle.schemas.repair import Repairs

if TYPE_CHECKING:
    from spindle.domain.tool import Tool

_NOT_AT_THE_TOP = ("$ref", "allOf", "anyOf", "oneOf", "not", "enum", "const", "if", "then", "else")
_FORM = "model"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""A name of an argument that all APIs take."""
MAX_SIZE: Final = 128 * 1024
"""Bytes of one tool's schema. All that a model reads of it is paid for, with every request."""
_DEPTHS: Final = (6, 4, 3, 2, 1)
_MAX_DEPTH = 8
_MAX_BRANCHES = 1000
"""Branches that are looked at. A union of unions of unions has as many as its author likes."""


def model_schema(tool: Tool) -> JsonObject:
    """Returns the schema of a tool's arguments in the shape that model APIs take, made once. `arguments_of`
    reads what a model sends."""
    made = tool.forms.get(_FORM)
    if made is None:
        made = tool.forms[_FORM] = _readable(for_models(tool.input_schema))
    return made


def model_description(tool: Tool) -> str:
    """Returns the description of a tool as a model is shown it: with what is not seen made visible."""
    return visible(tool.description)


def arguments_of(tool: Tool, sent: JsonObject) -> JsonObject:
    """Returns the arguments that a model sent under the names that the tool has for them."""
    known = _properties(tool.input_schema)
    if all(map(_NAME.fullmatch, known)):
        return sent
    full = {name: given for given, name in _names(known).items()}
    return {full.get(name, name): value for name, value in sent.items()}


def for_models(schema: JsonObject) -> JsonObject:
    """Returns a schema in the shape that model APIs take: an object with its properties at the top, and lists
    that say what they hold. Most are left as they are. Where the top is a combination of schemas, the model
    is told of the properties of all of them, and that those are required which every branch requires; what
    it then sends is checked against the whole schema like any call."""
    made: JsonObject = schema
    if schema.get("type") != "object" or any(key in schema for key in _NOT_AT_THE_TOP):
        made = _flattened(schema)
    elif not is_object(schema.get("properties")):
        made = schema | EMPTY_OBJECT_SCHEMA
    if not all(map(_NAME.fullmatch, made["properties"])):
        made = _renamed(made)
    made = _within_size(made)
    if made is not schema:
        # References may lead to what is no longer there.
        made = Repairs().of(made).schema
    return _spelled_out(made)


def _properties(schema: JsonObject) -> Iterable[str]:
    """The names of all arguments."""
    own = schema.get("properties")
    if (
        schema.get("type") == "object"
        and is_object(own)
        and not any(key in schema for key in _NOT_AT_THE_TOP)
    ):
        return own
    return _Flattening(schema).of(schema, _MAX_DEPTH)[0]


def _names(known: Iterable[str]) -> dict[str, str]:
    """By the name of each argument that some API would refuse, the one that models know it by."""
    known = list(known)
    safe = served_names(known)
    return {name: safe[name] for name in known if not _NAME.fullmatch(name)}


def _renamed(schema: JsonObject) -> JsonObject:
    names = _names(schema["properties"])
    made = {
        **schema,
        "properties": {names.get(name, name): part for name, part in schema["properties"].items()},
    }
    if is_array(schema.get("required")):
        made["required"] = [names.get(name, name) for name in schema["required"]]
    # They speak of names that the model does not know.
    for key in (
        "dependentRequired",
        "dependentSchemas",
        "dependencies",
        "patternProperties",
        "propertyNames",
    ):
        made.pop(key, None)
    return made


def _within_size(schema: JsonObject) -> JsonObject:
    """The schema, or the upper part of it that a model can be expected to read."""
    size = size_of(schema)
    made = schema if size <= MAX_SIZE else _nearest(schema, size)
    for depth in _DEPTHS:
        if size <= MAX_SIZE or (size := size_of(made)) <= MAX_SIZE:
            break
        made = _upper(made, depth)
    return made


def _upper(schema: JsonObject, depth: int) -> JsonObject:
    """A schema down to so many levels, below which only types are told."""
    if depth == 0:
        return {key: schema[key] for key in ("type", "$ref") if key in schema}

    def cut(part: Any) -> Any:
        return _upper(part, depth - 1) if is_object(part) else part

    made = dict(schema)
    for key, value in schema.items():
        if key in SINGLE:
            made[key] = cut(value)
        elif key in LISTS and is_array(value):
            made[key] = [cut(part) for part in value]
        elif key in MAPS and is_object(value):
            made[key] = {name: cut(part) for name, part in value.items()}
    return made


def _nearest(schema: JsonObject, size: int) -> JsonObject:
    """The schema with those of its definitions that are nearest to the top, as many as there is room for. Of
    the others it says nothing."""
    held = {key: schema[key] for key in ("$defs", "definitions") if is_object(schema.get(key))}
    left = MAX_SIZE - (size - sum(map(size_of, held.values())))
    waiting = deque(references(schema, without=held))
    kept: dict[Definition, Any] = {}
    while waiting and left > 0:
        place = waiting.popleft()
        part = held.get(place[0], {}).get(place[1])
        if part is not None and place not in kept:
            left -= size_of(part)
            if left > 0:
                kept[place] = part
                waiting += references(part)
    made = {key: value for key, value in schema.items() if key not in held}
    for (keyword, name), part in kept.items():
        made.setdefault(keyword, {})[name] = part
    return made


def _spelled_out(schema: JsonObject) -> JsonObject:
    """A schema with what may stay unsaid and APIs want to be told: what lists hold, and objects instead of
    true and false. What stays as it is stays the same object."""
    changes: JsonObject = {}
    for key, value in schema.items():
        if key in SINGLE:
            made: Any = _spelled_part(value) if key == "items" or is_object(value) else value
        elif key in LISTS and is_array(value):
            made = [_spelled_part(part) for part in value]
            made = value if all(map(_is_same, made, value)) else made
        elif key in MAPS and is_object(value):
            made = {name: _spelled_part(part) for name, part in value.items()}
            made = value if all(map(_is_same, made.values(), value.values())) else made
        else:
            continue
        if made is not value:
            changes[key] = made
    types: Any = schema.get("type")
    if "items" not in schema and "array" in (types if is_array(types) else [types]):
        changes["items"] = {}
    return {**schema, **changes} if changes else schema


def _spelled_part(schema: Any) -> Any:
    if isinstance(schema, bool):
        return {} if schema else {"not": {}}
    return _spelled_out(schema) if is_object(schema) else schema


def _is_same(one: Any, other: Any) -> bool:
    return one is other


def _flattened(schema: JsonObject) -> JsonObject:
    properties, required = _Flattening(schema).of(schema, _MAX_DEPTH)
    plain = {key: value for key, value in resolve(schema, schema).items() if key not in _NOT_AT_THE_TOP}
    kept = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    plain |= {**kept, "type": "object", "properties": properties}
    plain.pop("required", None)
    # Written beside one branch it would forbid the properties of the others.
    plain.pop("additionalProperties", None)
    plain.pop("unevaluatedProperties", None)
    return plain | ({"required": sorted(required)} if required else {})


class _Flattening:
    """Collects the properties of one schema."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._branches = 0

    def of(self, schema: Any, depth: int) -> tuple[JsonObject, set[str]]:
        """Returns the properties that a schema and its branches speak of, and those always required."""
        self._branches += 1
        resolved = resolve(self._root, schema)
        own, names = resolved.get("properties"), resolved.get("required")
        properties: JsonObject = dict(own) if is_object(own) else {}
        required = {str(name) for name in names} if is_array(names) else set[str]()
        if depth == 0:
            return properties, required
        for keyword in ("allOf", "anyOf", "oneOf"):
            branches = resolved.get(keyword)
            found: list[tuple[JsonObject, set[str]]] = []
            for branch in branches if is_array(branches) else ():
                if self._branches >= _MAX_BRANCHES:
                    break
                found.append(self.of(branch, depth - 1))
            for more, _ in found:
                for name, value in more.items():
                    properties[name] = _either(properties[name], value) if name in properties else value
            if keyword == "allOf":
                required.update(*(wanted for _, wanted in found))
            elif found and is_array(branches) and len(found) == len(branches):
                required |= set[str].intersection(*(wanted for _, wanted in found))
        return properties, required


def _either(one: Any, other: Any) -> Any:
    if one == other:
        return one
    known = one["anyOf"] if is_object(one) and one.keys() == {"anyOf"} else [one]
    return {"anyOf": known if other in known else [*known, other]}


def _readable(value: Any, *, is_text: bool = False) -> Any:
    """Returns a schema with what is not seen in its descriptions and titles made visible. Names and values
    stay: they are sent back."""
    if isinstance(value, str):
        return visible(value) if is_text else value
    if is_object(value):
        changed = {key: _readable(item, is_text=key in _SAID) for key, item in value.items()}
        return changed if any(changed[key] is not item for key, item in value.items()) else value
    if is_array(value):
        items = [_readable(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value


_SAID: Final = frozenset({"description", "title", "$comment"})
