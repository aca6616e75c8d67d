"""Splits a line of tools into words as a shell does, with `>>` between nodes, and with the place of each.

a --x='two words' >> b      quotes and backslashes as in a shell
a>>b                        `>>` needs no spaces; in quotes it is text
a --x=${lang ?? 'en'}       a template is one word, with its spaces and quotes
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from spindle.flows.expressions.errors import ExpressionError
from spindle.flows.templates import closing_brace

MAX_LENGTH: Final = 64 * 1024
MAX_NODES: Final = 1000


class PipeError(ValueError):
    """A mistake in a line of tools, and its place."""

    def __init__(self, problem: str, offset: int, hint: str | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.offset = offset
        self.hint = hint


@dataclass(frozen=True, slots=True)
class PipeWord:
    """One word of a line of tools, and its place."""

    text: str
    offset: int


_OTHER_JOINS = re.compile(r"(?:\|\|?|&&|;|[-=~|]>|→)(?=\s|$)")
"""Signs that join elsewhere, as words of their own."""


def split(text: str) -> list[list[PipeWord]]:
    """Returns the words of each node. Raises PipeError."""
    if len(text) > MAX_LENGTH:
        raise PipeError(f"longer than {MAX_LENGTH} characters", 0, "write it as a file")
    nodes: list[list[PipeWord]] = [[]]
    last_join = 0
    start = _after_space(text, 0)
    while start < len(text):
        if text.startswith(">>", start):
            if not nodes[-1]:
                raise PipeError("there is no tool before this `>>`", start)
            if text.startswith(">", start + 2):
                raise PipeError("nodes are joined by `>>`, not by `>>>`", start)
            nodes.append([])
            if len(nodes) > MAX_NODES:
                raise PipeError(f"more than {MAX_NODES} nodes", start, "write it as a file")
            last_join, start = start, _after_space(text, start + 2)
            continue
        if (other := _OTHER_JOINS.match(text, start)) is not None:
            raise PipeError(f"nodes are joined by `>>`, not by `{other[0]}`", start)
        word, end = _word(text, start)
        nodes[-1].append(PipeWord(word, start))
        start = _after_space(text, end)
    if not nodes[-1]:
        problem = "there is no tool after this `>>`" if len(nodes) > 1 else "there is no tool"
        raise PipeError(problem, last_join)
    return nodes


def quote(text: str) -> str:
    """Returns the text as one word, in double quotes if possible, so that a shell's single quotes fit
    around it."""
    if _PLAIN.fullmatch(text):
        return text
    if not re.search(r"[\"\\`]", text):
        return f'"{text}"'
    return "'" + text.replace("'", "'\\''") + "'"


_PLAIN = re.compile(r"[\w./:=@%+,-]+")
_RUN = re.compile(r"[^\s'\"\\$>]+")
_RUN_IN_QUOTES = re.compile(r'[^"\\$]+')


def _after_space(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _word(text: str, start: int) -> tuple[str, int]:
    pieces: list[str] = []
    position = start
    while position < len(text):
        char = text[position]
        if char.isspace() or text.startswith(">>", position):
            break
        if char == "'":
            end = text.find("'", position + 1)
            if end < 0:
                raise PipeError("this quote is not closed", position)
            pieces.append(text[position + 1 : end])
            position = end + 1
        elif char == '"':
            position = _in_quotes(text, position, pieces)
        elif char == "\\":
            if position + 1 == len(text):
                raise PipeError("there is nothing after this backslash", position)
            pieces.append(text[position + 1])
            position += 2
        elif char == "$":
            position = _template(text, position, pieces)
        else:
            run = _RUN.match(text, position)
            end = run.end() if run is not None else position + 1
            pieces.append(text[position:end])
            position = end
    return "".join(pieces), position


def _in_quotes(text: str, opening: int, pieces: list[str]) -> int:
    position = opening + 1
    while position < len(text):
        char = text[position]
        if char == '"':
            return position + 1
        if char == "\\" and text[position + 1 : position + 2] in ('"', "\\", "$", "`"):
            pieces.append(text[position + 1])
            position += 2
        elif char == "$":
            position = _template(text, position, pieces)
        else:
            run = _RUN_IN_QUOTES.match(text, position)
            end = run.end() if run is not None else position + 1
            pieces.append(text[position:end])
            position = end
    raise PipeError("this quote is not closed", opening)


def _template(text: str, position: int, pieces: list[str]) -> int:
    """Returns the end of a template, or the place after a `$` that begins none."""
    if text.startswith("$${", position):
        pieces.append("$${")
        return position + 3
    end = position
    if text.startswith("${", position):
        try:
            end = closing_brace(text, position + 2)
        except ExpressionError:
            raise PipeError("this template is not closed with a brace", position) from None
    pieces.append(text[position : end + 1])
    return end + 1
