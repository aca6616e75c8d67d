"""The lines of a TOML file on which its keys stand."""

from __future__ import annotations

import re
import tomllib
from typing import Final

KeyPath = tuple[str, ...]

_BLANK: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY: Final = re.compile(r"""[ \t]*(?P<key>[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')[ \t]*""")
_PART: Final = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*|[\[\]{}\n]|[^\[\]{}\n\"'#]+",
    re.DOTALL,
)
"""A string, a comment, a bracket, the end of a line, or anything else."""


def lines_of(text: str) -> dict[KeyPath, int]:
    """Returns the line of each table and key, counted from 1, of a text that is valid TOML. What an inline
    table holds stands on the line of its key; a table of an array is known by its place, from 0."""
    found: dict[KeyPath, int] = {}
    inside: KeyPath = ()
    counts: dict[KeyPath, int] = {}
    line, counted, at = 1, 0, _after_blank(text, 0)
    while at < len(text):
        line, counted = line + text.count("\n", counted, at), at
        if text.startswith("[[", at):
            path, at = _path(text, at + 2)
            number = counts[path] = counts.get(path, -1) + 1
            inside, at = (*path, str(number)), at + 2
        elif text[at] == "[":
            inside, at = _path(text, at + 1)
            at += 1
        else:
            path, at = _path(text, at)
            found.setdefault((*inside, *path), line)
            at = _after_value(text, at + 1)
        found.setdefault(inside, line)
        at = _after_blank(text, at)
    found.pop((), None)
    return found


def _after_blank(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _path(text: str, at: int) -> tuple[KeyPath, int]:
    """The dotted key at a place, and the place after it."""
    steps: list[str] = []
    while match := _KEY.match(text, at):
        key, at = match["key"], match.end()
        steps.append(next(iter(tomllib.loads(f"{key} = 0"))))
        if text[at : at + 1] != ".":
            break
        at += 1
    return tuple(steps), at


def _after_value(text: str, at: int) -> int:
    """The end of the line on which a value ends."""
    depth = 0
    while match := _PART.match(text, at):
        part, at = match[0], match.end()
        if part in ("[", "{"):
            depth += 1
        elif part in ("]", "}"):
            depth -= 1
        elif part == "\n" and depth <= 0:
            break
    return at
