"""Typed stubs of tools, made of their JSON Schemas.

A type says no less than its schema allows, with one exception: an object that lists its properties, and does
not say that others are welcome, has only those, so that a mistyped one is found before anything is called.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from spindle.code_mode.naming import TYPE_NAMES, ToolFunction, identifier, parameter_names
from spindle.domain.json_schema import JsonObject, is_array, is_object, resolve
from spindle.domain.tool import is_wrapped
from spindle.schemas.models import model_description, model_schema

if TYPE_CHECKING:
    from spindle.domain.tool import Tool

HEAD: Final = f"from typing import {', '.join(TYPE_NAMES)}\n"
_PLAIN: Final = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_MOST_DEEP: Final = 6
_MOST_CHOICES: Final = 60
_MOST_NAMES: Final = 400
"""Types of one tool that have names. A schema of others' making may have as many as it likes."""
_MOST_PARTS: Final = 5_000
"""Parts of a tool's schemas that are looked at. With references a small schema has as many as it likes."""
MOST_DESCRIBED: Final = 200
"""Parameters whose descriptions a model reads."""
MOST_SHOWN: Final = 20_000
"""Characters of a declaration that a model reads."""
MOST_SAID: Final = 2_000
"""Characters of a description."""


def stub_of(tools: Iterable[tuple[ToolFunction, Tool]]) -> str:
    """Returns the stub of a module with these tools, for the type checker."""
    return HEAD + "".join(declared(function, tool) for function, tool in tools)


def described(function: ToolFunction, tool: Tool, *, briefly: bool = False) -> str:
    """Returns a tool for a model to read: its types and signature, and what it says of itself."""
    said = model_description(tool).strip()
    if briefly:
        said = said.split("\n", 1)[0].split(". ", 1)[0]
    lines = [f"# {line}" for line in said[:MOST_SAID].splitlines() if line.strip()]
    told = [] if briefly else _parameter_lines(model_schema(tool))
    declaration = declared(function, tool, path=function.path).strip()
    if len(declaration) > MOST_SHOWN:
        declaration = (
            f"{declaration[:MOST_SHOWN]}\n# … the rest of {len(declaration):,} characters is left out"
        )
    return "\n".join([*lines, *told, declaration])


def declared(function: ToolFunction, tool: Tool, *, path: str | None = None) -> str:
    """Returns the declaration of a tool. With `path`, its types have the name of the module before them."""
    types = _Types(function, path is not None)
    schema = model_schema(tool)
    properties: JsonObject = schema["properties"]
    wanted: Any = schema.get("required")
    required = {str(name) for name in wanted} if is_array(wanted) else set[str]()
    own = parameter_names(properties)
    given = [
        f"{name}: {types.of(schema, properties[full], name)}{'' if full in required else ' = ...'}"
        for name, full in own.items()
    ]
    # Those that are required first, as a reader expects; all go by name.
    given.sort(key=lambda one: one.endswith("= ..."))
    returned = _returned(types, tool.output_schema)
    signature = (
        f"async def {path or function.name}({', '.join(['*', *given] if given else [])}) -> {returned}"
    )
    return "".join(types.made) + signature + ": ...\n"


def _returned(types: _Types, schema: JsonObject | None) -> str:
    if schema is None:
        return "Any"
    inner: Any = schema["properties"]["result"] if is_wrapped(schema) else schema
    return types.of(schema, inner, "result", is_result=True)


def _parameter_lines(schema: JsonObject) -> list[str]:
    found: list[str] = []
    for name, full in parameter_names(schema["properties"]).items():
        part: Any = schema["properties"][full]
        said = part.get("description") if is_object(part) else None
        if isinstance(said, str) and said.strip():
            found.append(f"#   {name}: {' '.join(said.split())[:300]}")
    return found[:MOST_DESCRIBED]


_Key = tuple[int, Any]
"""The whole that a schema is part of, and its reference or the object itself."""


class _Types:
    """The types of one tool, named after it."""

    def __init__(self, function: ToolFunction, shown: bool) -> None:
        self.made: list[str] = []
        self._stem = _camel(function.name)
        self._before = f"{function.module}." if shown else ""
        self._named: dict[_Key, str] = {}
        """The names of types: schemas that refer to themselves end there."""
        self._taken: set[str] = {function.name}
        self._inside: list[_Key] = []
        self._left = _MOST_PARTS

    def of(self, root: JsonObject, schema: Any, name: str, *, is_result: bool = False) -> str:
        """Returns the type of a schema."""
        self._left -= 1
        if self._left < 0 or schema is True or not is_object(schema) or len(self._inside) >= _MOST_DEEP:
            return "Any"
        key = id(root), schema.get("$ref") or id(schema)
        if key in self._named:
            return self._named[key]
        if key in self._inside:
            return "Any"
        self._inside.append(key)
        try:
            return self._resolved(root, resolve(root, schema), name, is_result)
        finally:
            self._inside.pop()

    def _resolved(self, root: JsonObject, schema: JsonObject, name: str, is_result: bool) -> str:
        choices = _choices(schema)
        if choices is not None:
            return _literal(choices)
        for word in ("anyOf", "oneOf"):
            branches: Any = schema.get(word)
            if is_array(branches) and branches:
                if is_object(schema.get("properties")):
                    return "dict[str, Any]"  # properties and branches together: more than a type can say
                return _union([self.of(root, part, name, is_result=is_result) for part in branches])
        parts: Any = schema.get("allOf")
        if is_array(parts) and parts:
            if len(parts) == 1 and not is_object(schema.get("properties")):
                return self.of(root, parts[0], name, is_result=is_result)
            return "dict[str, Any]" if schema.get("type") == "object" else "Any"
        kinds: Any = schema.get("type")
        if is_array(kinds):
            return _union([self._kind(root, schema, str(kind), name, is_result) for kind in kinds])
        if kinds is None and is_object(schema.get("properties")):
            kinds = "object"
        return self._kind(root, schema, kinds, name, is_result)

    def _kind(self, root: JsonObject, schema: JsonObject, kind: Any, name: str, is_result: bool) -> str:
        if kind == "array":
            return f"list[{self.of(root, schema.get('items', True), name, is_result=is_result)}]"
        if kind == "object":
            return self._object(root, schema, name, is_result)
        return _PLAIN.get(kind, "Any") if isinstance(kind, str) else "Any"

    def _object(self, root: JsonObject, schema: JsonObject, name: str, is_result: bool) -> str:
        properties, others = schema.get("properties"), schema.get("additionalProperties")
        if not is_object(properties) or not properties:
            if is_object(others):
                return f"dict[str, {self.of(root, others, name, is_result=is_result)}]"
            return "dict[str, Any]"
        is_open = others is True or is_object(others) or is_object(schema.get("patternProperties"))
        # What a tool returns is only read: more in it does no harm, and reading what is not declared does.
        if (is_open and not is_result) or len(self._taken) >= _MOST_NAMES:
            return "dict[str, Any]"
        own = self._name(name)
        place = self._inside[-1]
        self._named[place] = f"{self._before}{own}"
        wanted: Any = schema.get("required")
        required = {str(key) for key in wanted} if is_array(wanted) else set[str]()
        fields: list[tuple[str, str]] = []
        for key, part in properties.items():
            inner = self.of(root, part, f"{name}_{key}", is_result=is_result)
            fields.append((key, inner if key in required else f"NotRequired[{inner}]"))
        self.made.append(_declared_object(own, fields))
        return self._named[place]

    def _name(self, name: str) -> str:
        wanted = made = f"{self._stem}{_camel(name)}"
        number = 2
        while made in self._taken:
            made, number = f"{wanted}{number}", number + 1
        self._taken.add(made)
        return made


def _declared_object(name: str, fields: Sequence[tuple[str, str]]) -> str:
    if all(key.isidentifier() and key.isascii() and not keyword.iskeyword(key) for key, _ in fields):
        return f"class {name}(TypedDict):\n" + "".join(f"    {key}: {kind}\n" for key, kind in fields)
    inside = ", ".join(f"{key!r}: {kind}" for key, kind in fields)
    return f"{name} = TypedDict({name!r}, {{{inside}}})\n"


def _choices(schema: JsonObject) -> list[Any] | None:
    found: Any = [schema["const"]] if "const" in schema else schema.get("enum")
    return found if is_array(found) and found else None


def _literal(choices: Sequence[Any]) -> str:
    plain = [one for one in choices if one is None or isinstance(one, str | int)]
    if len(plain) < len(choices) or len(choices) > _MOST_CHOICES:
        return _union([_type_of(one) for one in choices])
    return f"Literal[{', '.join(map(repr, plain))}]"


def _type_of(value: Any) -> str:
    if value is None:
        return "None"
    for kind, name in ((bool, "bool"), (int, "int"), (float, "float"), (str, "str")):
        if isinstance(value, kind):
            return name
    return "list[Any]" if is_array(value) else "dict[str, Any]"


def _union(kinds: Iterable[str]) -> str:
    found = list(dict.fromkeys(kinds))
    return "Any" if not found or "Any" in found else " | ".join(found)


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in identifier(name).split("_"))
