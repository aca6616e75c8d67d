"""The one reader of JSON and YAML from outside: documents of APIs and events, manuals, flows.

A hostile text costs what an honest one of its size costs: what may grow is counted, and nothing recurses.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from spindle.documents import json_text
from spindle.documents.places import DocumentPath, NotInFormatError, TextError, TextMark
from spindle.domain.json_schema import from_json, to_json

Format = Literal["json", "yaml"]

MAX_SIZE: Final = 32 * 1024 * 1024
"""Bytes. The largest public descriptions of APIs are a third of that."""

MAX_DEPTH: Final = 150
"""Levels of lists and objects. Real documents have up to 24; what walks them calls itself for each level, and
Python allows a thousand such calls."""

MAX_UNFOLDED: Final = 1_000_000
"""Parts that aliases and merges of YAML add. Some programs write an alias for each use of a schema, and each
is written out in the schema of a tool."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits within which a text is read."""

    size: int = MAX_SIZE
    depth: int = MAX_DEPTH
    unfolded: int = MAX_UNFOLDED


DEFAULT_BOUNDS: Final = Bounds()


@dataclass(frozen=True, slots=True)
class ReadText:
    """The value of a text, and a way to find the places of its parts, which are seldom asked for."""

    value: Any
    find_marks: Callable[[], Mapping[DocumentPath, TextMark]]


def read(text: str, format: Format, bounds: Bounds = DEFAULT_BOUNDS) -> ReadText:
    """Returns the value of a text that its user has written; raises TextError with the line of a mistake.

    A name that stands twice in an object is a mistake, and an alias gives a copy.
    """
    if len(text) > bounds.size:
        raise TextError(f"longer than {bounds.size} characters")
    if format == "json":
        value = json_text.parse(text, unique=True)
        if _is_deeper(value, bounds.depth):
            raise _too_deep(bounds, json_text.line_below(text, bounds.depth))
        return ReadText(value, lambda: json_text.marks(text))
    from spindle.documents import yaml_text

    value = yaml_text.parse(text, depth=bounds.depth, unfolded=bounds.unfolded, unique=True)
    if "*" in text:
        value = from_json(to_json(value))
    return ReadText(value, lambda: yaml_text.marks(text, depth=bounds.depth, unfolded=bounds.unfolded))


def read_any(data: bytes, bounds: Bounds = DEFAULT_BOUNDS) -> Any:
    """Returns the value of JSON or YAML that is somebody else's; raises TextError.

    The last of several equal names counts, as for most readers: who uses the document did not write it.
    """
    if len(data) > bounds.size:
        raise TextError(f"larger than {bounds.size} bytes")
    mistake: str | None = None
    data = data.removeprefix(codecs.BOM_UTF8)
    if data[:1024].lstrip().startswith((b"{", b"[")):
        try:
            value = json_text.parse_fast(data)
            if _is_deeper(value, bounds.depth):
                raise _too_deep(bounds)
            return value
        except NotInFormatError as error:
            # YAML has lists and objects in brackets too.
            mistake = error.said
    from spindle.documents import yaml_text

    try:
        return yaml_text.parse(decode(data), depth=bounds.depth, unfolded=bounds.unfolded, unique=False)
    except NotInFormatError as error:
        said = mistake or error.said
        raise TextError(f"this is neither JSON nor YAML: {said}", error.line, error.hint) from None


def decode(data: bytes) -> str:
    """Returns the text of bytes in UTF-8, or in UTF-16 where they begin with its mark; raises TextError."""
    encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TextError("this is not UTF-8 text", line) from None


def _is_deeper(value: Any, depth: int) -> bool:
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


def _too_deep(bounds: Bounds, line: int | None = None) -> TextError:
    return TextError(f"nested more than {bounds.depth} levels deep", line)
