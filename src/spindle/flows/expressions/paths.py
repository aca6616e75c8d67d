"""Places in JSON values and in the shared store: `node.key[0]['odd name']`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

from spindle.domain.json_schema import is_array, is_object
from spindle.flows.expressions.errors import ExpressionError

Step = str | int
Path = tuple[Step, ...]

Lookup = Callable[[Path], Any]
"""The value at a path of the shared store, or MISSING."""


class Missing:
    """The value of something that is missing, which is not the same as null."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()

MAX_DIGITS: Final = 18
"""Digits of an index; no list is that long."""

_NAME = re.compile(r"[^\s.\[\]{}$?\"'`]+")
_QUOTED = re.compile(r"`([^`]+)`")
_INDEX = re.compile(r"\[(-?[0-9]+|\"[^\"]*\"|'[^']*')\]")
_PLAIN_NAME = re.compile(r"[^\s.\[\]{}$?\"'`+*/%<>=!(),|&-][^\s.\[\]{}$?\"'`+*/%<>=!(),|&]*")


def parse_path(text: str) -> Path:
    """Returns the steps of a path such as `node.key[0]['odd name']`. Raises ExpressionError."""
    steps: list[Step] = []
    position = 0
    while position < len(text):
        if text[position] == "[":
            index = _INDEX.match(text, position)
            if index is None:
                raise ExpressionError(f"{text!r}: brackets hold a number or a quoted name")
            steps.append(index[1][1:-1] if index[1][0] in "\"'" else int(index[1][:MAX_DIGITS]))
            position = index.end()
            continue
        if steps:
            if text[position] != ".":
                raise ExpressionError(f"{text!r}: a dot is missing before {text[position:]!r}")
            position += 1
        name = _QUOTED.match(text, position) if not steps else None
        name = name or _NAME.match(text, position)
        if name is None:
            raise ExpressionError(f"{text!r}: a name is missing" if text else "a name is missing")
        steps.append(name[name.lastindex or 0])
        position = name.end()
    if not steps:
        raise ExpressionError("a name is missing")
    return tuple(steps)


def written_path(path: Path) -> str:
    """Returns a path as it is written in a template."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif not text and not _PLAIN_NAME.fullmatch(step) and step and "`" not in step:
            text = f"`{step}`"
        elif _NAME.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{json.dumps(step)}]"
    return text


def descend(value: Any, path: Path) -> Any:
    """Returns the part of a value at a path, or MISSING."""
    for step in path:
        if is_object(value) and step in value:
            value = value[str(step)]
            continue
        if not is_array(value):
            return MISSING
        index = step if isinstance(step, int) else int(step[:MAX_DIGITS]) if step.isdecimal() else len(value)
        if not -len(value) <= index < len(value):
            return MISSING
        value = value[index]
    return value
