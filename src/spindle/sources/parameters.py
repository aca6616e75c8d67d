"""Parameters that a user describes in the settings, and the places in words and messages they fill.

A parameter is written as JSON Schema would have it, in one line: `{ type = "integer", minimum = 1 }`, or
just `"integer"`. A place is `{name}`. A brace with anything else in it is text, so that `{print $1}`,
`{{.Names}}` and JSON need no escapes; and so is `${NAME}`, which is a variable of the environment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, cast

from pydantic import BaseModel, ConfigDict, model_validator

from spindle.domain.json_schema import JsonObject, to_json
from spindle.domain.tool import Hints, ToolSpec
from spindle.errors import suggest

JsonType = Literal["string", "integer", "number", "boolean", "array", "object"]

# What JSON Schema says about one value, besides what is declared below.
KEYWORDS: Final = frozenset({
    "title", "enum", "const", "examples", "format", "pattern", "minLength", "maxLength",
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    "items", "minItems", "maxItems", "uniqueItems",
    "properties", "additionalProperties", "anyOf", "oneOf", "writeOnly", "deprecated",
})  # fmt: skip
_PLACE = re.compile(r"(?<![{$])\{([A-Za-z_][A-Za-z0-9_-]*)\}(?!\})")


class ParameterConfig(BaseModel):
    """One parameter of a tool. Kinds of sources add how it is passed on."""

    model_config = ConfigDict(extra="allow", frozen=True)

    type: JsonType = "string"
    description: str = ""
    required: bool = False
    default: Any = None
    """Passed on when a caller leaves it out."""

    @model_validator(mode="before")
    @classmethod
    def _a_name_is_its_type(cls, value: Any) -> Any:
        return {"type": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _only_keywords(self) -> ParameterConfig:
        for key in self.model_extra or {}:
            if key not in KEYWORDS:
                meant = suggest(key, {*KEYWORDS, *type(self).model_fields})
                raise ValueError(f"`{key}` is not known" + (f"; did you mean `{meant}`?" if meant else ""))
        return self

    def as_schema(self) -> JsonObject:
        """Returns the JSON Schema of the parameter."""
        schema: JsonObject = {"type": self.type}
        if self.description:
            schema["description"] = self.description
        schema |= {key: value for key, value in (self.model_extra or {}).items() if value is not None}
        if isinstance(schema.get("items"), str):
            schema["items"] = {"type": schema["items"]}
        if self.default is not None:
            schema["default"] = self.default
        return schema


class Described(BaseModel):
    """A tool as a user describes it in the settings, of whatever kind."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    description: str = ""
    title: str | None = None
    tags: tuple[str, ...] = ()
    read_only: bool | None = None
    idempotent: bool | None = None
    destructive: bool | None = None
    output_schema: dict[str, Any] | None = None

    @property
    def hints(self) -> Hints:
        """Returns the hints that the user gave."""
        return Hints(read_only=self.read_only, idempotent=self.idempotent, destructive=self.destructive)

    def spec(
        self, name: str, place: str, parameters: Mapping[str, ParameterConfig], output: JsonObject | None
    ) -> ToolSpec:
        """Returns the tool that is described at this place in the settings."""
        return ToolSpec(
            remote_name=name,
            description=self.description,
            title=self.title,
            input_schema=input_schema(parameters),
            output_schema=output,
            hints=self.hints,
            tags=self.tags,
            place=place,
        )


def input_schema(parameters: Mapping[str, ParameterConfig]) -> JsonObject:
    """Returns the input schema of a tool with these parameters."""
    schema: JsonObject = {
        "type": "object",
        "properties": {name: parameter.as_schema() for name, parameter in parameters.items()},
        "additionalProperties": False,
    }
    required = [name for name, parameter in parameters.items() if parameter.required]
    return schema | ({"required": required} if required else {})


def with_defaults(parameters: Mapping[str, ParameterConfig], arguments: JsonObject) -> JsonObject:
    """Returns the arguments, with the settings' values for those that were left out."""
    defaults = {
        name: parameter.default for name, parameter in parameters.items() if parameter.default is not None
    }
    return defaults | arguments


def places(text: str) -> list[str]:
    """Returns the names of the parameters that a text has places for."""
    return _PLACE.findall(text)


def whole_place(text: str) -> str | None:
    """Returns the name, where the text is one place and nothing else."""
    match = _PLACE.fullmatch(text)
    return match[1] if match else None


def check_places(text: str, known: Iterable[str]) -> None:
    """Raises ValueError for a place that no parameter fills."""
    known = list(known)
    for name in places(text):
        if name not in known:
            meant = suggest(name, known)
            raise ValueError(
                f"{text!r} has a place for {name!r}, which is not a parameter"
                + (f"; did you mean {meant!r}?" if meant else "; put a space into the braces if it is text")
            )


def filled_text(text: str, arguments: JsonObject) -> str | None:
    """Returns the text with every place filled, or None where an argument for one was left out."""
    if any(arguments.get(name) is None for name in places(text)):
        return None
    return _PLACE.sub(lambda match: as_text(arguments[match[1]]), text)


def filled(template: Any, arguments: JsonObject) -> Any:
    """A message with every place filled. A value that is one place keeps its argument's type; what has a
    place for an argument that was left out is left out too. None when that is the whole template."""
    if isinstance(template, str):
        name = whole_place(template)
        return arguments.get(name) if name is not None else filled_text(template, arguments)
    if isinstance(template, dict):
        items = cast("dict[str, Any]", template).items()
        return {key: filled(item, arguments) for key, item in items if _is_given(item, arguments)}
    if isinstance(template, (list, tuple)):
        elements = cast("list[Any]", template)
        return [filled(item, arguments) for item in elements if _is_given(item, arguments)]
    return template


def texts(template: Any) -> Iterator[str]:
    """Yields every text in a template."""
    if isinstance(template, str):
        yield template
    elif isinstance(template, dict):
        for item in cast("dict[str, Any]", template).values():
            yield from texts(item)
    elif isinstance(template, (list, tuple)):
        for item in cast("list[Any]", template):
            yield from texts(item)


def as_text(value: Any) -> str:
    """Returns a value as a word: text as it is, everything else as JSON."""
    return value if isinstance(value, str) else to_json(value).decode()


def _is_given(item: Any, arguments: JsonObject) -> bool:
    return not isinstance(item, str) or all(name in arguments for name in places(item))
