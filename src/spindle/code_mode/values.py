"""Values between programs and tools: programs have those of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from spindle.code_mode.naming import parameter_names
from spindle.domain.json_schema import JsonObject, from_json, is_object, to_json
from spindle.domain.text_values import value_of_text
from spindle.domain.tool import is_wrapped
from spindle.schemas.models import arguments_of, model_schema

if TYPE_CHECKING:
    from spindle.domain.call import Result
    from spindle.domain.text_values import Parse
    from spindle.domain.tool import Tool

MOST_DEEP = 64
_MOST_BITS = 14_000
"""Of an integer. Python writes no more than 4,300 digits."""


MOST_PARTS = 500_000
"""Of a value: texts, numbers, lists and objects."""


class LargeValueError(ValueError):
    """A value is larger than it may be."""


def arguments_in(tool: Tool, given: Mapping[str, Any]) -> JsonObject:
    """Returns the arguments of a call in a program under the names that the tool has for them."""
    own = parameter_names(model_schema(tool)["properties"])
    return arguments_of(tool, {own.get(name, name): value for name, value in given.items()})


def as_json(value: Any, most: int) -> Any:
    """Returns a value of a program as JSON has it, of at most about this many characters. Raises TypeError if
    JSON has none for it, LargeValueError if it is larger."""
    return _Copied(most).as_json(value)


def as_shown(value: Any, most: int) -> Any:
    """Returns the value of a whole program, of at most about this many characters: what JSON has no form for
    is written as text. Raises LargeValueError if it is larger."""
    return _Copied(most).as_shown(value)


class _Copied:
    """Copies a value of a program, and counts. A few lines make lists of lists that hold one list twice, and
    written out have more parts than there are bytes in the world."""

    def __init__(self, most: int) -> None:
        self._most = self._left = most
        self._parts = MOST_PARTS

    def _count(self, size: int) -> None:
        self._left -= size
        self._parts -= 1
        if self._left < 0:
            raise LargeValueError(f"a value has more than {self._most:,} characters")
        if self._parts < 0:
            raise LargeValueError(f"a value has more than {MOST_PARTS:,} parts")

    def as_json(self, value: Any, depth: int = 0) -> Any:
        if depth > MOST_DEEP:
            raise TypeError(f"a value is more than {MOST_DEEP} levels deep")
        if isinstance(value, dict):
            return {self._key(key): self.as_json(item, depth + 1) for key, item in _pairs(value)}
        if isinstance(value, list | tuple):
            return [self.as_json(item, depth + 1) for item in self._items(value)]
        return self._plain(value)

    def as_shown(self, value: Any, depth: int = 0) -> Any:
        parts = _parts(value)
        if parts is not None and depth >= MOST_DEEP:
            return "…"
        if isinstance(parts, dict):
            return {
                self._shown_key(key, depth): self.as_shown(item, depth + 1) for key, item in _pairs(parts)
            }
        if parts is not None:
            return [self.as_shown(item, depth + 1) for item in self._items(parts)]
        try:
            return self._plain(value)
        except TypeError:
            text = _text(value)
            self._count(len(text))
            return text

    def _plain(self, value: Any) -> Any:
        self._count(len(value) + 2 if isinstance(value, str) else 2)
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, int):
            if (bits := value.bit_length()) > _MOST_BITS:
                raise TypeError(f"an integer of {bits:,} bits is too large")
            return value
        if isinstance(value, float):
            if value != value or value in (float("inf"), float("-inf")):
                raise TypeError(f"{value} is no number of JSON")
            return value
        raise TypeError(f"a value of type {type(value).__name__} is no value of JSON")

    def _items(self, value: Any) -> list[Any]:
        self._count(2)
        return cast("list[Any]", value)

    def _key(self, key: Any) -> str:
        if not isinstance(key, str):
            raise TypeError(f"a key of type {type(key).__name__} is no key of a JSON object")
        self._count(len(key) + 4)
        return key

    def _shown_key(self, key: Any, depth: int) -> str:
        self._count(4)
        shown = self.as_shown(key, depth + 1)
        return shown if isinstance(shown, str) else str(shown)


def _pairs(value: Any) -> Any:
    return cast("dict[Any, Any]", value).items()


def _parts(value: Any) -> Any:
    """Returns what a value holds, which may be much more than it seems; None if it holds nothing."""
    if isinstance(value, dict | list | tuple | set | frozenset):
        return cast("Any", value)
    return getattr(value, "attributes", None)  # of an object of the program's own class


def _text(value: Any) -> str:
    if isinstance(value, int):
        return f"an integer of {value.bit_length():,} bits"
    return str(value)


def value_of(result: Result, tool: Tool, parse: Parse) -> Any:
    """Returns a tool's result as a program sees it: the structured data, else the text, which is a value
    where it is JSON, else what is known of its files."""
    schema = tool.output_schema
    if result.has_structured:
        value = result.structured
        if is_wrapped(schema) and is_object(value) and "result" in value:
            return value["result"]
        return value
    if not result.text and result.content:
        files = [block.to_dict() for block in result.content]
        return [{key: value for key, value in file.items() if key != "data"} for file in files]
    is_text = schema is not None and schema.get("type") == "string"
    value = result.text if is_text else value_of_text(result.text, parse)
    # Plain lists and objects: a sandbox takes no others.
    return from_json(to_json(value)) if isinstance(value, dict | list) else value
