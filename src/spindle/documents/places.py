"""Places in a text, and the errors that name them."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

DocumentPath = tuple[str | int, ...]
"""The way from a document's root to a part of it: `("nodes", 0, "params", "query")`."""


MAX_PROBLEM: Final = 300
"""Characters of a problem, which may quote the text."""


@dataclass(frozen=True, slots=True)
class TextMark:
    """A place in a text; both count from 1."""

    line: int
    column: int


class Lines:
    """Turns offsets in a text into marks."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def mark(self, offset: int) -> TextMark:
        """Returns the line and column of an offset."""
        line = bisect_right(self._starts, offset)
        return TextMark(line, offset - self._starts[line - 1] + 1)


class TextError(ValueError):
    """A text that cannot be read, with the line and a hint where they are known."""

    def __init__(self, problem: str, line: int | None = None, hint: str | None = None) -> None:
        problem = problem if len(problem) <= MAX_PROBLEM else f"{problem[:MAX_PROBLEM]}…"
        super().__init__(problem)
        self.problem = problem
        self.line = line
        self.hint = hint


class LargeTextError(TextError):
    """A text with more in it than may be read."""


class DeepTextError(TextError):
    """A text with more levels than Python can follow."""


class NotInFormatError(TextError):
    """A text that is not of its format at all. `said` is the parser's own word for it."""

    def __init__(self, format: str, said: str, line: int | None = None, hint: str | None = None) -> None:
        super().__init__(f"this is not {format}: {said}", line, hint)
        self.said = said
