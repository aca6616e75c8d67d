"""Flags of a tool, typed by its schema: `--path=x`, `--tag a --tag b`, `--no-force`.

    --path=x  --path x         a value; text stays text where the schema wants a string
    --some-name                finds `some_name` and `someName` too
    --force  --no-force        booleans
    --tag a --tag b            an array, item by item; one `--tag='["a", "b"]'` gives it whole
    --options='{"a": 1}'       objects as JSON
    --limit null               where the schema admits null

Where a schema admits several types, a value that is JSON of one of them is taken as that, and any
other as text where text is admitted.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable
from typing import Any

from spindle.documents.json_text import loads
from spindle.domain.json_schema import (
    JsonObject,
    Parameter,
    is_array,
    is_object,
    parameter_of,
    parameters,
    type_of,
    types_of,
)
from spindle.errors import InvalidArgumentsError, suggest
from spindle.remedies import Remedy

_STRING, _INTEGER, _NUMBER, _OBJECT, _ARRAY, _NULL = (
    frozenset({name}) for name in ("string", "integer", "number", "object", "array", "null")
)
_INTEGER_TEXT = re.compile(r"[+-]?[0-9]+")
_NUMBER_TEXT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_ARTICLES = {"integer": "an integer", "object": "a JSON object", "array": "a JSON array", "null": "null"}


def _nothing(_text: str) -> bool:
    return False


class Flags:
    """The flags of one tool. Give them to `take` in order, then read the `arguments`.

    `keep` decides if a text stands for a value of any type and is kept as it is.
    """

    def __init__(self, tool: str, schema: JsonObject, keep: Callable[[str], bool] = _nothing) -> None:
        self._tool = tool
        self._schema = schema
        self._keep = keep
        self.known = {parameter.name: parameter for parameter in parameters(schema)}
        self._texts: dict[str, list[str]] = {}
        self._values: JsonObject = {}

    def has(self, body: str) -> bool:
        """True if a flag, without its dashes, names a parameter of the tool, or negates one."""
        name, value = self.split(body)
        negated = self.find(name[3:]) if value is None and name.startswith("no-") else None
        return self.find(name) is not None or (negated is not None and "boolean" in negated.types)

    def give(self, name: str, value: Any) -> None:
        """Take a value that is not text any more."""
        parameter = self.find(name) or self._additional(name)
        if parameter.name in self._values:
            raise InvalidArgumentsError(f"{name} was given twice", hint="give an array whole: name:='[1, 2]'")
        self._values[parameter.name] = value

    def take(self, body: str, waiting: deque[str]) -> str:
        """Read `body`, a flag without its dashes; its value may be the first of the words waiting. Returns
        the parameter's name."""
        name, value = self.split(body)
        parameter = self.find(name)
        if parameter is None and value is None and name.startswith("no-"):
            parameter = self.find(name[3:])
            if parameter is not None and "boolean" in parameter.types:
                self._texts.setdefault(parameter.name, []).append("false")
                return parameter.name
            parameter = None
        if parameter is None:
            parameter = self._additional(name)
        if value is None:
            value = self._next_value(name, parameter, waiting)
        self._texts.setdefault(parameter.name, []).append(value)
        return parameter.name

    def arguments(self) -> JsonObject:
        twice = next((name for name in self._texts if name in self._values), None)
        if twice is not None:
            raise InvalidArgumentsError(f"{twice} was given twice", hint="give it once")
        return {**{name: self.value(name) for name in self._texts}, **self._values}

    def value(self, name: str) -> Any:
        """The value of a parameter that was given."""
        return self._value(self.known[name], self._texts[name])

    def split(self, body: str) -> tuple[str, str | None]:
        # A parameter's own name may hold `=`, so known names come first, the longest before others.
        for name in sorted(self.known, key=len, reverse=True):
            if body == name:
                return name, None
            if body.startswith(f"{name}="):
                return name, body[len(name) + 1 :]
        name, equals, value = body.partition("=")
        return name, value if equals else None

    def find(self, name: str) -> Parameter | None:
        if name in self.known:
            return self.known[name]
        close = [known for known in self.known if _folded(known) == _folded(name)]
        return self.known[close[0]] if len(close) == 1 else None

    def _additional(self, name: str) -> Parameter:
        rest = self._schema.get("additionalProperties")
        if rest is True or (is_object(rest) and rest):
            self.known[name] = parameter_of(name, rest, False, self._schema)
            return self.known[name]
        meant = suggest(name, self.known)
        raise InvalidArgumentsError(
            f"{self._tool} has no parameter --{name}",
            hint=f"did you mean --{meant}?" if meant else None,
            remedy=None if meant else Remedy("parameters", self._tool),
            tool=self._tool,
        )

    def _next_value(self, name: str, parameter: Parameter, waiting: deque[str]) -> str:
        following = waiting[0] if waiting else None
        if "boolean" in parameter.types:
            literals = ("true", "false", "null") if "null" in parameter.types else ("true", "false")
            only_boolean = parameter.types <= {"boolean", "null"}
            if (
                following is None
                or following.startswith("--")
                or (only_boolean and following not in literals and not self._keep(following))
            ):
                return "true"
            return waiting.popleft()
        if following is None:
            raise InvalidArgumentsError(f"--{name} needs a value")
        if following.startswith("--"):
            raise InvalidArgumentsError(
                f"--{name} needs a value", hint=f"write --{name}={following} if that is the value"
            )
        return waiting.popleft()

    # --- from text to value

    def _value(self, parameter: Parameter, texts: list[str]) -> Any:
        flag, types = f"--{parameter.name}", parameter.types
        if len(texts) > 1:
            if types and "array" not in types:
                raise InvalidArgumentsError(f"{flag} was given {len(texts)} times and takes one value")
            return [self._item(flag, parameter, text) for text in texts]
        text = texts[0]
        if self._keep(text):
            return text
        if "array" not in types:
            return _scalar(flag, text, types)
        whole = self._whole_array(parameter, text)
        if whole is not None:
            return whole
        others = types - {"array"}
        if others == _NULL and text == "null":
            return None
        return _scalar(flag, text, others) if others - {"null"} else [self._item(flag, parameter, text)]

    def _whole_array(self, parameter: Parameter, text: str) -> list[Any] | None:
        try:
            value = loads(text, unique=False)
        except ValueError:
            return None
        if not is_array(value):
            return None
        is_one_item = parameter.item_types == _ARRAY and not all(is_array(item) for item in value)
        return [value] if is_one_item else value

    def _item(self, flag: str, parameter: Parameter, text: str) -> Any:
        return text if self._keep(text) else _scalar(flag, text, parameter.item_types)


def value_of(text: str, schema: JsonObject, what: str) -> Any:
    """One value of the type that a schema wants."""
    return _scalar(what, text, types_of(schema, schema))


def load_json(text: str, where: str) -> Any:
    """Parses JSON from the command line; `where` names it in the error."""
    try:
        return loads(text, unique=False)
    except ValueError as error:
        raise InvalidArgumentsError(
            f"{where} is not valid JSON: {error}", hint="""quote it for the shell: '{"name": "value"}'"""
        ) from None


def load_object(text: str, where: str) -> JsonObject:
    """Arguments written as one JSON object."""
    value = load_json(text, where)
    if not is_object(value):
        raise InvalidArgumentsError(f"{where} must be a JSON object, not {_article(type_of(value))}")
    return value


def _scalar(flag: str, text: str, types: frozenset[str]) -> Any:
    if types == _STRING:
        return text
    if types == _INTEGER and _INTEGER_TEXT.fullmatch(text):
        return _number(flag, text, types)
    if types == _NUMBER and _NUMBER_TEXT.fullmatch(text):
        return _number(flag, text, types)
    try:
        value = loads(text, unique=False)
    except ValueError as error:
        if types == _OBJECT and text.lstrip().startswith("{"):
            raise InvalidArgumentsError(f"{flag} is not valid JSON: {error}") from None
    else:
        if not types or _admits(types, value):
            return value
    if not types or "string" in types:
        return text
    raise _wrong_type(flag, text, types)


def _number(flag: str, text: str, types: frozenset[str]) -> int | float:
    try:
        if _INTEGER_TEXT.fullmatch(text):
            return int(text)
        value = float(text)
    except ValueError:  # more digits than Python converts
        raise _wrong_type(flag, text[:20] + "…", types) from None
    if not math.isfinite(value):
        raise InvalidArgumentsError(f"{flag} is too large a number: {text!r}")
    return value


def _admits(types: frozenset[str], value: Any) -> bool:
    kind = type_of(value)
    return (
        kind in types
        or (kind == "integer" and "number" in types)
        or (kind == "number" and "integer" in types and float(value).is_integer())
    )


def _wrong_type(flag: str, text: str, types: frozenset[str]) -> InvalidArgumentsError:
    wanted = " or ".join(_article(name) for name in sorted(types))
    return InvalidArgumentsError(f"{flag} must be {wanted}, not {text!r}")


def _article(name: str) -> str:
    return _ARTICLES.get(name, f"a {name}")


def _folded(name: str) -> str:
    return name.replace("-", "").replace("_", "").lower()
