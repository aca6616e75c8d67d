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


def arguments_in(tool: Tool, given: Mapping[str, Any]) -> JsonObject:
    """Returns the arguments of a call in a program under the names that the tool has for them."""
    own = parameter_names(model_schema(tool)["properties"])
    return arguments_of(tool, {own.get(name, name): value for name, value in given.items()})


def as_json(value: Any, depth: int = 0) -> Any:
    """Returns a value of a program as JSON has it. Raises TypeError if it has none for it."""
    if depth > MOST_DEEP:
        raise TypeError(f"a value is more than {MOST_DEEP} levels deep")
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise TypeError(f"{value} is no number of JSON")
        return value
    if isinstance(value, dict):
        return {_key(key): as_json(item, depth + 1) for key, item in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [as_json(item, depth + 1) for item in cast("list[Any]", value)]
    raise TypeError(f"a value of type {type(value).__name__} is no value of JSON")


def as_shown(value: Any, depth: int = 0) -> Any:
    """Returns the value of a whole program: what JSON has no form for is written as text."""
    if isinstance(value, dict) and depth < MOST_DEEP:
        return {str(key): as_shown(item, depth + 1) for key, item in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list | tuple | set | frozenset) and depth < MOST_DEEP:
        return [as_shown(item, depth + 1) for item in cast("list[Any]", value)]
    try:
        return as_json(value, depth)
    except TypeError:
        return str(cast("object", value))


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


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"{key!r} is no key of a JSON object")
    return key
