"""Dotted paths into messages, such as `params.id`."""

from __future__ import annotations

from typing import Any, Final, cast

from spindle.domain.json_schema import JsonObject

MISSING: Final = object()
"""At a path that leads nowhere."""


def at(message: Any, path: str) -> Any:
    """Returns what a path leads to, or MISSING. A number is a place in a list."""
    for step in path.split("."):
        if isinstance(message, dict) and step in message:
            message = cast(JsonObject, message)[step]
        elif isinstance(message, list) and step.isdecimal() and int(step) < len(cast("list[Any]", message)):
            message = cast("list[Any]", message)[int(step)]
        else:
            return MISSING
    return message


def put(message: JsonObject, path: str, value: Any) -> None:
    """Writes a value at the end of a path, and the objects on the way."""
    *folders, last = path.split(".")
    for step in folders:
        inner = message.setdefault(step, {})
        if not isinstance(inner, dict):
            inner = message[step] = {}
        message = cast(JsonObject, inner)
    message[last] = value
