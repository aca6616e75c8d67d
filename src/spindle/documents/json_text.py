"""JSON with the place of each part. No NaN, and no number that would be rounded."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from spindle.documents.places import DeepTextError, DocumentPath, Lines, NotInFormatError, TextError, TextMark
from spindle.domain.json_schema import has_long_number


def loads(text: str, *, unique: bool) -> Any:
    """Returns the value of JSON, without NaN and numbers that overflow; raises ValueError. `unique` refuses a
    name twice in one object."""
    pairs = _object_of if unique else None
    try:
        return json.loads(text, parse_float=_finite, parse_constant=_refuse, object_pairs_hook=pairs)
    except RecursionError:
        raise _DepthError("it is nested too deeply") from None


def parse(text: str, *, unique: bool) -> Any:
    """Returns the value of a JSON text as `loads` does; raises TextError, with the line."""
    try:
        return loads(text, unique=unique)
    except json.JSONDecodeError as error:
        raise NotInFormatError("JSON", error.msg, error.lineno, _hint(text, error)) from None
    except _TwiceError:
        # The standard parser does not say where; the scanner does.
        name, line, first = next(_twice(text))
        raise TextError(f"{name!r} appears a second time; the first is in line {first}", line) from None
    except _NumberError as error:
        at = next(found.start() for found in _TOKEN.finditer(text) if found[0] == error.token)
        raise NotInFormatError("JSON", str(error), Lines(text).mark(at).line) from None
    except _DepthError as error:
        raise DeepTextError(str(error)) from None
    except ValueError as error:
        raise NotInFormatError("JSON", str(error)) from None


def parse_fast(data: bytes) -> Any:
    """Returns the value of JSON in which names may stand twice; raises TextError."""
    import orjson

    if has_long_number(data):
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise TextError("this is not UTF-8 text") from None
        return parse(text, unique=False)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        said = str(error)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise TextError("this is not UTF-8 text") from None
    # The standard library's parser knows the line, and what writers mean.
    parse(text, unique=False)
    raise NotInFormatError("JSON", said)


def marks(text: str) -> dict[DocumentPath, TextMark]:
    """Returns the places of all parts of a text that is known to be JSON."""
    lines = Lines(text)
    return {path: lines.mark(offset) for path, offset, _ in _parts(text)}


def line_below(text: str, depth: int) -> int | None:
    """Returns the line in which JSON is nested deeper than so many levels first."""
    level = 0
    for token in _TOKEN.finditer(text):
        level += (token[0] in "{[") - (token[0] in "}]")
        if level > depth:
            return Lines(text).mark(token.start()).line
    return None


class _TwiceError(ValueError):
    """A name that stands twice in an object."""


class _DepthError(ValueError):
    """More levels than Python can follow."""


class _NumberError(ValueError):
    """A number that JSON does not know."""

    def __init__(self, problem: str, token: str) -> None:
        super().__init__(problem)
        self.token = token


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twin = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise _TwiceError(f"the key {twin!r} appears twice")
    return found


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise _NumberError(
            f"the number {number if len(number) < 30 else number[:10] + '…'} is too large", number
        )
    return value


def _refuse(name: str) -> Any:
    raise _NumberError(f"{name} is not a number that JSON knows", name)


def _hint(text: str, error: json.JSONDecodeError) -> str | None:
    before, here = text[: error.pos].rstrip(), text[error.pos : error.pos + 2]
    if before.endswith(",") and here[:1] in ("}", "]", ""):
        return "take away the comma before it"
    if here[:1] in ("}", "]") and "trailing comma" in error.msg:
        return "take away the comma before it"
    if here in ("//", "/*") or here[:1] == "#":
        return "JSON has no comments; YAML has"
    if here[:1] == "'":
        return "JSON needs double quotes"
    if here[:1].isalpha() and before[-1:] in "{[,":
        return "JSON needs names in double quotes; put `---` in the first line if this is YAML"
    return None


# --- the parts of a text that is known to be JSON


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\Z)|[{}\[\],:]|[^\s{}\[\],:"]+')


def _twice(text: str) -> Iterator[tuple[str, int, int]]:
    lines = Lines(text)
    seen: dict[DocumentPath, int] = {}
    for path, offset, is_key in _parts(text):
        if is_key and path in seen:
            yield str(path[-1]), lines.mark(offset).line, lines.mark(seen[path]).line
        seen[path] = offset


def _parts(text: str) -> Iterator[tuple[DocumentPath, int, bool]]:
    """Each key and each item of a list with where it begins."""
    path: list[str | int] = []
    kinds: list[str] = []
    expects_key = False
    is_first = True
    for token in _TOKEN.finditer(text):
        sign = token[0]
        if is_first:
            yield (), token.start(), False
            is_first = False
        if sign in "{[":
            if kinds and kinds[-1] == "[":
                yield tuple(path), token.start(), False
            kinds.append(sign)
            path.append(0 if sign == "[" else "")
            expects_key = sign == "{"
        elif sign in "}]":
            kinds.pop()
            path.pop()
            expects_key = False
        elif sign == ",":
            if kinds[-1] == "[":
                path[-1] = int(path[-1]) + 1
            else:
                expects_key = True
        elif sign == ":":
            continue
        elif expects_key:
            path[-1] = json.loads(sign, strict=False)
            expects_key = False
            yield tuple(path), token.start(), True
        elif kinds and kinds[-1] == "[":
            yield tuple(path), token.start(), False
