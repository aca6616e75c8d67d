"""JSON and JSON Schema as data: canonical form, and what a schema says about its parameters.

Whether a schema may be used at all says `check_schema` of `schema_cost`."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeGuard, cast

JsonObject = dict[str, Any]

_MAX_PARTS = 256

EMPTY_OBJECT_SCHEMA: JsonObject = {"type": "object", "properties": {}}


def is_object(value: object) -> TypeGuard[JsonObject]:
    """True for a JSON object."""
    return isinstance(value, dict)


def objects_in(value: Any) -> list[JsonObject]:
    """Returns the objects in a list; none if the value is not a list."""
    return [item for item in value if is_object(item)] if is_array(value) else []


def is_array(value: object) -> TypeGuard[list[Any]]:
    """True for a JSON array."""
    return isinstance(value, list)


def canonical(value: Any) -> bytes:
    """Returns one byte string for equal JSON values: keys sorted, no spaces, UTF-8."""
    return to_json(value, sort_keys=True)


class _Later:
    """A module that is imported with its first use, and then without asking for it again."""

    def __getattr__(self, name: str) -> Any:
        global _orjson  # noqa: PLW0603 - it takes its own place
        import orjson

        _orjson = orjson
        return getattr(orjson, name)


_orjson: Any = _Later()


def to_json(value: Any, *, sort_keys: bool = False, default: Callable[[Any], Any] | None = None) -> bytes:
    """Returns a value as JSON. `default` turns what is not JSON into something that is."""
    try:
        return _orjson.dumps(value, default, _orjson.OPT_SORT_KEYS if sort_keys else None)
    except TypeError:
        # orjson refuses integers over 64 bits and half surrogate pairs (which file names may hold),
        # both of which JSON can write.
        import json

        return json.dumps(value, default=default, sort_keys=sort_keys, separators=(",", ":")).encode()


# Finding a run of digits this way is many times faster than with a regular expression.
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER = b"0" * 19


def has_long_number(data: bytes) -> bool:
    """Returns True for JSON in which orjson might round a number."""
    return data.translate(_DIGITS).find(_LONG_NUMBER) >= 0  # `in` tries to read it as a number first


MAX_DEPTH: Final = 200
"""Levels of lists and objects in JSON from outside. orjson writes 254, and who walks a value calls itself."""


def from_json(data: bytes) -> Any:
    """Returns the value that `to_json` was given, also where orjson alone would round a number or refuse a
    text. Raises json.JSONDecodeError, whatever is wrong."""
    if not has_long_number(data):
        try:
            value: Any = _orjson.loads(data)
        except _orjson.JSONDecodeError:
            pass
        else:
            return shallow(value, data)
    import json

    try:
        return shallow(json.loads(data, parse_float=_finite, parse_constant=_refuse), data)
    except json.JSONDecodeError:
        raise
    except RecursionError:
        problem = TOO_DEEP
    except ValueError as error:
        problem = str(error).partition(";")[0]
    raise json.JSONDecodeError(problem, "", 0)


TOO_DEEP: Final = f"nested more than {MAX_DEPTH} levels deep"


def shallow(value: Any, data: bytes) -> Any:
    """Returns the value of a JSON text; raises json.JSONDecodeError if it is nested too deeply."""
    # What has few brackets need not be walked through.
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH and is_deeper(value, MAX_DEPTH):
        import json

        raise json.JSONDecodeError(TOO_DEEP, "", 0)
    return value


def is_deeper(value: Any, depth: int) -> bool:
    """True if lists and objects are nested in more levels."""
    level = [value]
    for _ in range(depth):
        level = [
            item
            for node in level
            for item in (node.values() if node.__class__ is dict else node if node.__class__ is list else ())
            if item.__class__ is dict or item.__class__ is list
        ]
        if not level:
            return False
    return True


def _finite(number: str) -> float:
    value = float(number)
    if math.isinf(value):
        raise ValueError(f"the number {number[:20]} is too large")
    return value


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not a number that JSON knows")


def survives_json(value: Any) -> bool:
    """True if a value comes back the same after it was written as JSON."""
    try:
        return bool(from_json(to_json(value)) == value)
    except (TypeError, ValueError, RecursionError):
        return False


def pointer_steps(reference: str) -> list[str]:
    """Returns the names in the JSON pointer at the end of a reference, each as it stands in the document."""
    from urllib.parse import unquote

    pointer = reference if reference.startswith("/") else reference.partition("#")[2]
    return [unquote(step).replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def resolve_pointer(root: JsonObject, reference: str) -> Any:
    """Returns what a local `#/...` reference points at, or None when it points nowhere."""
    if not reference.startswith(("#/", "/")):
        return root if reference in ("#", "") else None
    node: Any = root
    for step in pointer_steps(reference):
        node = resolve_step(node, step)
    return node


def resolve_step(node: Any, step: str) -> Any:
    """Returns the part of an object or a list that one step of a pointer names, or None."""
    if is_object(node):
        return node.get(step)
    if is_array(node) and _INDEX.fullmatch(step) and int(step) < len(node):
        return node[int(step)]
    return None


_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


def resolve(root: JsonObject, schema: Any) -> JsonObject:
    """Follows local references to a schema that is none; `{}` when they lead nowhere."""
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
    choices: tuple[Any, ...] = ()
    """The only values that it, or each of its items, may have; empty if there are others."""

    @property
    def description(self) -> str:
        """The text that says what it is for."""
        return str(self.schema.get("description") or self.schema.get("title") or "")

    @property
    def label(self) -> str:
        """A short name of the type: `integer`, `string[]`, `a|b|c`."""
        if not self.choices:
            return self.type_name
        choices = "|".join(map(as_word, self.choices))
        return f"({choices})[]" if "array" in self.types else choices

    @property
    def type_name(self) -> str:
        """The types alone, also of a parameter that has choices."""
        if "array" in self.types and self.item_types:
            return "|".join(sorted(self.item_types)) + "[]"
        return "|".join(sorted(self.types - {"null"})) or "any"


def as_word(value: Any) -> str:
    """A value as one types it: text as it is, all else as JSON."""
    return value if isinstance(value, str) else to_json(value).decode()


def parameters(schema: JsonObject) -> list[Parameter]:
    """Returns the top-level properties of an object schema, `allOf` parts included, in order."""
    found: dict[str, Any] = {}
    required: set[str] = set()
    for part in _object_parts(schema, schema):
        properties = part.get("properties")
        if is_object(properties):
            found.update(properties)
        names = part.get("required")
        if is_array(names):
            required.update(str(name) for name in names)
    return [parameter_of(name, raw, name in required, schema) for name, raw in found.items()]


def parameter_of(name: str, schema: Any, required: bool, root: JsonObject) -> Parameter:
    """Returns one property of an input. `root` is the schema that its references point into."""
    resolved = resolve(root, schema)
    return Parameter(
        name=name,
        schema=resolved,
        required=required,
        types=types_of(root, resolved),
        item_types=_item_types(root, resolved),
        choices=_choices(root, resolved),
    )


def _object_parts(root: JsonObject, schema: Any) -> Iterator[JsonObject]:
    """The schema and all parts of its `allOf`, in the order they are written. Bounded, because
    references may go in circles."""
    waiting = [schema]
    for _ in range(_MAX_PARTS):
        if not waiting:
            return
        resolved = resolve(root, waiting.pop(0))
        yield resolved
        parts = resolved.get("allOf")
        if is_array(parts):
            waiting[:0] = parts


def types_of(root: JsonObject, schema: Any) -> frozenset[str]:
    """Returns the JSON types that a schema names; empty when it does not say."""
    found: set[str] = set()
    for part in _alternatives(root, schema):
        found |= _own_types(part) or ({"object"} if "properties" in part else set())
    return frozenset(found)


def _item_types(root: JsonObject, schema: Any) -> frozenset[str]:
    """The types of an array's items, also if the array is one of several alternatives."""
    found: frozenset[str] = frozenset()
    for part in _alternatives(root, schema):
        if "items" in part:
            found |= types_of(root, part["items"])
    return found


def _choices(root: JsonObject, schema: Any, *, are_items: bool = False) -> tuple[Any, ...]:
    """The only values that a schema admits besides null, or that its items may have. Lists of lists have
    none: they may hold themselves."""
    found: list[Any] = []
    for part in _alternatives(root, schema):
        if "items" in part:
            values: Any = () if are_items else _choices(root, part["items"], are_items=True)
        elif "const" in part:
            values = [part["const"]]
        else:
            values = part.get("enum") or _constants(part)
        if not values and _own_types(part) != {"null"}:
            return ()
        found += [value for value in values or () if value is not None and value not in found]
    return tuple(found)


def _constants(schema: JsonObject) -> list[Any]:
    """The values of `oneOf: [{const: …}, …]`, which is how choices get titles."""
    branches = schema.get("oneOf") or schema.get("anyOf")
    if not is_array(branches) or not all(is_object(branch) and "const" in branch for branch in branches):
        return []
    return [branch["const"] for branch in branches]


def _alternatives(root: JsonObject, schema: Any) -> Iterator[JsonObject]:
    """The schemas that say what a value may be: this one, or the branches that it leaves it to."""
    waiting = [schema]
    for _ in range(_MAX_PARTS):
        if not waiting:
            return
        resolved = resolve(root, waiting.pop(0))
        branches = [
            branch
            for keyword in ("anyOf", "oneOf", "allOf")
            if is_array(resolved.get(keyword))
            for branch in resolved[keyword]
        ]
        if branches and not _own_types(resolved):
            waiting[:0] = branches
        else:
            yield resolved


def _own_types(schema: JsonObject) -> set[str]:
    declared = schema.get("type")
    if isinstance(declared, str):
        return {declared}
    if is_array(declared):
        return {str(name) for name in declared}
    if "const" in schema:
        return {type_of(schema["const"])}
    choices = schema.get("enum")
    return {type_of(choice) for choice in choices} if is_array(choices) else set()


def type_of(value: object) -> str:
    """Returns the JSON type of a value."""
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


def property_texts(
    schema: JsonObject, shared: Mapping[str, JsonObject] | None = None, limit: int = 200
) -> Iterator[str]:
    """Names and descriptions of all properties at any depth, for search; the uppermost first. `shared`
    is what the schema refers to as `#/$defs/…` without holding it, found by its name too. Bounded."""
    waiting: deque[Any] = deque([schema])
    followed: set[str] = set()
    seen = 0
    while waiting and seen < limit:
        node = waiting.popleft()
        if is_object(node):
            seen += 1
            reference = node.get("$ref")
            if shared and isinstance(reference, str) and reference not in followed:
                followed.add(reference)
                target = shared.get(reference.removeprefix("#/$defs/"))
                if target is not None:
                    waiting.append(target)
                    yield reference.rpartition("/")[2]
                    if isinstance(target.get("description"), str):
                        yield target["description"]
            properties = node.get("properties")
            if is_object(properties):
                for name, value in properties.items():
                    yield name
                    if is_object(value) and isinstance(value.get("description"), str):
                        yield cast(str, value["description"])
        inner = node.values() if is_object(node) else node
        waiting.extend(value for value in inner if is_object(value) or is_array(value))
