"""JSON with the place of each part. Strict: no NaN, and no name twice in an object."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from spindle.flows.problems import DocumentPath, Lines, Positions, TextMark


class TextError(ValueError):
    """A text that is not what it should be."""

    def __init__(self, problem: str, line: int | None = None, hint: str | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line
        self.hint = hint


class _TwiceError(ValueError):
    pass


class _NumberError(ValueError):
    def __init__(self, problem: str, token: str) -> None:
        super().__init__(problem)
        self.token = token


def parse(text: str) -> tuple[Any, Positions]:
    """Raises TextError."""
    try:
        value = json.loads(text, parse_float=_finite, parse_constant=_refuse, object_pairs_hook=_object_of)
    except json.JSONDecodeError as error:
        raise TextError(f"this is not JSON: {error.msg}", error.lineno, _hint(text, error)) from None
    except _TwiceError:
        # The standard parser does not say where; the scanner does.
        name, line, first = next(_twice(text))
        raise TextError(f"{name!r} stands here a second time; the first is in line {first}", line) from None
    except _NumberError as error:
        at = next(found.start() for found in _TOKEN.finditer(text) if found[0] == error.token)
        raise TextError(f"this is not JSON: {error}", Lines(text).mark(at).line) from None
    except RecursionError:
        raise TextError("it is nested too deeply") from None
    except ValueError as error:
        raise TextError(f"this is not JSON: {error}") from None
    return value, Positions(lambda: _marks(text))


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _TwiceError
    return found


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise _NumberError(f"the number {number} is too large", number)
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
        return "JSON wants double quotes"
    return None


# --- where things stand, in a text that is known to be JSON


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


def _marks(text: str) -> dict[DocumentPath, TextMark]:
    lines = Lines(text)
    return {path: lines.mark(offset) for path, offset, _ in _parts(text)}


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
