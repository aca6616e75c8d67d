"""The one reader of JSON and YAML from outside: documents of APIs and events, manuals, flows.

A hostile text costs what an honest one of its size costs: what may grow is counted, and nothing recurses.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from spindle.documents import json_text
from spindle.documents.bounds import DEFAULT_BOUNDS, Bounds
from spindle.documents.places import (
    DeepTextError,
    DocumentPath,
    LargeTextError,
    NotInFormatError,
    TextError,
    TextMark,
)
from spindle.domain.json_schema import from_json, is_deeper, to_json

Format = Literal["json", "yaml"]

_JSON_START = re.compile(rb"\s*+[\[{]")


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
        raise LargeTextError(f"longer than {bounds.size} characters")
    if format == "json":
        _check_parts(text.count(",") + text.count("[") + text.count("{"), bounds)
        value = _as_json(lambda: json_text.parse(text, unique=True), lambda: text, bounds)
        return ReadText(value, lambda: json_text.marks(text))
    from spindle.documents import yaml_text

    value = yaml_text.parse(text, bounds, unique=True)
    if "*" in text:
        value = from_json(to_json(value))
    return ReadText(value, lambda: yaml_text.marks(text, bounds))


def read_any(data: bytes, bounds: Bounds = DEFAULT_BOUNDS) -> Any:
    """Returns the value of JSON or YAML that is somebody else's; raises TextError.

    The last of several equal names counts, as for most readers: who uses the document did not write it. JSON
    that cannot be read is a mistake in JSON, and not given to a reader of YAML.
    """
    if len(data) > bounds.size:
        raise LargeTextError(f"larger than {bounds.size} bytes")
    data = data.removeprefix(codecs.BOM_UTF8)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        data = decode(data).encode()
    if _JSON_START.match(data):
        _check_parts(data.count(b",") + data.count(b"[") + data.count(b"{"), bounds)
        return _as_json(lambda: json_text.parse_fast(data), lambda: decode(data), bounds)
    from spindle.documents import yaml_text

    try:
        return yaml_text.parse(decode(data), bounds, unique=False)
    except NotInFormatError as error:
        raise TextError(f"this is neither JSON nor YAML: {error.said}", error.line, error.hint) from None


def decode(data: bytes) -> str:
    """Returns the text of bytes in UTF-8, or in UTF-16 where they begin with its mark; raises TextError."""
    encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TextError("this is not UTF-8 text", line) from None


def _check_parts(parts: int, bounds: Bounds) -> None:
    """Refuses JSON with too many signs between its parts, before anything is made of them."""
    if parts > bounds.parts:
        raise LargeTextError(f"more than {bounds.parts} lists, objects and values")


def _as_json(parse: Callable[[], Any], text: Callable[[], str], bounds: Bounds) -> Any:
    try:
        value = parse()
    except DeepTextError:
        pass
    else:
        if not is_deeper(value, bounds.depth):
            return value
    line = json_text.line_below(text(), bounds.depth)
    raise TextError(f"nested more than {bounds.depth} levels deep", line)
