"""Templates in a flow's parameters: `${node.key}`, `${items[0].name}`, `${key ?? default}`.

    "${search.items}"            the value itself, whatever its type
    "found ${search.total}"      text with values in it; what is not text is written as JSON
    "${lang ?? 'en'}"            a default where there is nothing, or null: JSON, or text
    "${draft ?? ${search.text}}" another template as the default
    "$${kept}"                   the text `${kept}`

They speak of the flow's shared store and of nothing else: the environment is for settings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from spindle.documents.json_text import loads
from spindle.domain.json_schema import is_array, is_object, to_json

Step = str | int
Path = tuple[Step, ...]


class Missing:
    """The value of something that is missing, which is not the same as null."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()

MAX_DEFAULTS: Final = 20
"""Templates that may be each other's defaults."""

Lookup = Callable[[Path], Any]
"""The value at a path of the shared store, or MISSING."""


class TemplateError(ValueError):
    """A template that cannot be read; the message says what is wrong with it."""


class UnresolvedError(LookupError):
    """A template that refers to something that does not exist."""

    def __init__(self, reference: Reference) -> None:
        super().__init__(f"${{{reference.text}}} has no value")
        self.reference = reference


@dataclass(frozen=True, slots=True)
class Reference:
    """One `${…}`: a place in the shared store, and the value to use if it is empty."""

    path: Path
    text: str
    """The text between the braces."""
    has_default: bool = False
    default: Any = None
    """A value, or a Reference if the default is a template itself."""

    def resolve(self, lookup: Lookup) -> Any:
        value = lookup(self.path)
        if value is MISSING or (value is None and self.has_default):
            if not self.has_default:
                raise UnresolvedError(self)
            return self.default.resolve(lookup) if isinstance(self.default, Reference) else self.default
        return value


Parts = tuple[str | Reference, ...]

_OPEN = re.compile(r"\$\$\{|\$\{")
_NAME = re.compile(r"[^\s.\[\]{}$?\"'`]+")
_INDEX = re.compile(r"\[(-?[0-9]+|\"[^\"]*\"|'[^']*')\]")


def parse(text: str) -> Parts:
    """Returns the text and the references of a template, in order. Raises TemplateError."""
    parts: list[str | Reference] = []
    position = 0
    while (found := _OPEN.search(text, position)) is not None:
        if found.start() > position:
            parts.append(text[position : found.start()])
        if found[0] == "$${":
            parts.append("${")
            position = found.end()
            continue
        end = closing_brace(text, found.end())
        parts.append(_reference(text[found.end() : end]))
        position = end + 1
    if position < len(text):
        parts.append(text[position:])
    return tuple(parts)


def parse_path(text: str) -> Path:
    """Returns the steps of a path such as `node.key[0]['odd name']`. Raises TemplateError."""
    steps: list[Step] = []
    position = 0
    while position < len(text):
        if text[position] == "[":
            index = _INDEX.match(text, position)
            if index is None:
                raise TemplateError(f"{text!r}: brackets hold a number or a quoted name")
            steps.append(index[1][1:-1] if index[1][0] in "\"'" else int(index[1]))
            position = index.end()
            continue
        if steps:
            if text[position] != ".":
                raise TemplateError(f"{text!r}: a dot is missing before {text[position:]!r}")
            position += 1
        name = _NAME.match(text, position)
        if name is None:
            raise TemplateError(f"{text!r}: a name is missing" if text else "a name is missing")
        steps.append(name[0])
        position = name.end()
    if not steps:
        raise TemplateError("a name is missing")
    return tuple(steps)


def written_path(path: Path) -> str:
    """Returns a path as it is written in a template."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _NAME.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{json.dumps(step)}]"
    return text


def render(value: Any, lookup: Lookup) -> Any:
    """Returns the value with every template in it resolved, at any depth. Raises UnresolvedError."""
    if isinstance(value, str):
        return _render_text(value, lookup) if "${" in value else value
    if is_object(value):
        return {key: render(item, lookup) for key, item in value.items()}
    if is_array(value):
        return [render(item, lookup) for item in value]
    return value


def references(value: Any) -> Iterator[Reference]:
    """Yields all references of the templates in a value, also in defaults. Raises TemplateError."""
    if isinstance(value, str):
        for part in parse(value):
            while isinstance(part, Reference):
                yield part
                part = part.default
    elif is_object(value):
        for item in value.values():
            yield from references(item)
    elif is_array(value):
        for item in value:
            yield from references(item)


def descend(value: Any, path: Path) -> Any:
    """Returns the part of a value at a path, or MISSING."""
    for step in path:
        if is_object(value) and step in value:
            value = value[str(step)]
        elif is_array(value) and isinstance(step, int) and -len(value) <= step < len(value):
            value = value[step]
        elif is_array(value) and isinstance(step, str) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return MISSING
    return value


def _render_text(text: str, lookup: Lookup) -> Any:
    parts = parse(text)
    if len(parts) == 1:
        (only,) = parts
        return only.resolve(lookup) if isinstance(only, Reference) else only
    return "".join(part if isinstance(part, str) else _as_text(part.resolve(lookup)) for part in parts)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value, default=str).decode()


def closing_brace(text: str, start: int) -> int:
    """Returns the place of the brace that closes the one before `start`, skipping quoted text."""
    depth, position = 1, start
    while position < len(text):
        char = text[position]
        if char in "\"'":
            end = text.find(char, position + 1)
            position = position if end < 0 else end
        elif char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
            if depth == 0:
                return position
        position += 1
    raise TemplateError(f"{text[max(0, start - 2) :]!r} is not closed with a brace")


def _reference(text: str, depth: int = 0) -> Reference:
    path, operator, default = text.partition("??")
    steps = parse_path(path.strip())
    if not operator:
        return Reference(steps, text.strip())
    return Reference(steps, text.strip(), has_default=True, default=_default(default.strip(), depth + 1))


def _default(text: str, depth: int) -> Any:
    if depth > MAX_DEFAULTS:
        raise TemplateError(f"more than {MAX_DEFAULTS} defaults stand one inside the other")
    if text.startswith("${") and text.endswith("}") and closing_brace(text, 2) == len(text) - 1:
        return _reference(text[2:-1], depth)
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1]
    try:
        return loads(text, unique=False)
    except ValueError:
        return text
