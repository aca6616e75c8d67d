"""The problems of a flow, each with its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from spindle.documents.places import DocumentPath, TextMark
from spindle.domain.json_schema import JsonObject
from spindle.domain.records import set_fields
from spindle.errors import FlowError

Severity = Literal["error", "warning"]


class Positions:
    """The places of a document's parts in its text, computed when one is first asked for."""

    def __init__(
        self, find: Callable[[], Mapping[DocumentPath, TextMark]], *, with_columns: bool = False
    ) -> None:
        self._find = find
        self._marks: Mapping[DocumentPath, TextMark] | None = None
        self._with_columns = with_columns

    def at(self, path: DocumentPath) -> TextMark | None:
        """Returns the place of this part, or of the nearest part that contains it."""
        if self._marks is None:
            self._marks = self._find()
        for length in range(len(path), -1, -1):
            if (mark := self._marks.get(path[:length])) is not None:
                return mark
        return None

    def problem(
        self,
        severity: Severity,
        message: str,
        path: DocumentPath = (),
        *,
        hint: str | None = None,
        place: str = "",
    ) -> Problem:
        mark = self.at(path)
        line = mark.line if mark is not None else None
        column = mark.column if mark is not None and self._with_columns else None
        return Problem(severity, message, hint, place, line, column)


NOWHERE: Final = Positions(dict)
"""The positions of a flow that was not read from a text."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a flow, and its place."""

    severity: Severity
    message: str
    hint: str | None = None
    place: str = ""
    """The file, or the other source of the text."""
    line: int | None = None
    column: int | None = None
    """Set where one line holds a whole flow, as a line of tools does."""

    @property
    def where(self) -> str:
        """`flows/triage.json:12`"""
        numbers = [str(number) for number in (self.line, self.column) if number is not None]
        return ":".join([self.place, *numbers] if self.place else numbers)

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message

    def to_dict(self) -> JsonObject:
        return set_fields(self)


class BrokenFlowError(FlowError):
    """A flow that cannot be read. The message is about the first of its `problems`."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        first = problems[0]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(
            f"{first}{more}", hint=first.hint, details=[problem.to_dict() for problem in problems]
        )
        self.problems = tuple(problems)
