"""Examples with every field that the protocol's schemas have, made from the schemas themselves: a field that
a later version of the SDK knows is sent without anybody adding it here."""

from __future__ import annotations

import types
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "title": "A schema",
    "properties": {"value": {"type": "string", "description": "any", "examples": ["a", None]}},
    "additionalProperties": True,
}
META = {"com.example/trace": {"deep": [1, None, "three"], "null": None}, "com.example/flag": False}
BY_NAME: dict[str, Any] = {
    "_meta": META,
    "inputSchema": SCHEMA,
    "outputSchema": {**SCHEMA, "title": "What comes back"},
    "structuredContent": {"value": "structured", "more": [1, 2.5, None, {"a": "b"}]},
    "requestedSchema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"name": {"type": "string", "title": "Name", "minLength": 1}},
        "required": ["name"],
    },
    "data": "aGVsbG8=",
    "blob": "aGVsbG8=",
    "uri": "test://every/field",
    "uriTemplate": "test://every/{field}",
    "url": "https://example.com/page",
    "src": "https://example.com/icon.png",
    "websiteUrl": "https://example.com",
    "mimeType": "application/x-test",
    "sizes": ["48x48", "any"],
    "lastModified": "2026-01-12T15:00:58Z",
    "isError": None,
    "nextCursor": None,
    "resultType": "complete",
    "ttlMs": 0,
    "cacheScope": "private",
}
"""By field, what it holds; None leaves it out."""


def example(annotation: Any, **fixed: Any) -> Any:
    """A value of this type. `fixed` holds fields of a model that are given."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _model(annotation, fixed)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return arguments[0]
    if origin in (Union, types.UnionType):
        return example(next(item for item in arguments if item is not type(None)))
    if origin is list:
        return examples(arguments[0])
    if origin is dict or annotation is dict:
        return {"a key": "a value"}
    if annotation in PLAIN:
        return PLAIN[annotation]
    return {"anything": [1, None]}


PLAIN: dict[Any, Any] = {str: "a text", int: 7, float: 0.5, bool: True}


def examples(annotation: Any) -> list[Any]:
    """One value for each type that it may have."""
    if get_origin(annotation) in (Union, types.UnionType):
        return [example(item) for item in get_args(annotation)]
    return [example(annotation)]


def _model(model: type[BaseModel], fixed: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        key = field.alias or name
        if key in fixed or key in BY_NAME:
            value = fixed.get(key, BY_NAME.get(key))
            if value is not None:
                made[key] = value
        elif key == "text":
            made[key] = f"the text of {model.__name__}"
        elif key == "name":
            made[key] = f"every_{model.__name__}".lower()
        elif "title" in key or "description" in key:
            made[key] = f"the {key} of {model.__name__}"
        else:
            made[key] = example(field.annotation)
    return made
