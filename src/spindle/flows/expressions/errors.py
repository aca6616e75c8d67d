"""The errors of expressions and templates. Nothing else is raised by them."""

from __future__ import annotations


class ExpressionError(ValueError):
    """An expression or a template that cannot be read, or that has no value. `column` counts from 1."""

    def __init__(self, problem: str, column: int | None = None, hint: str | None = None) -> None:
        super().__init__(problem if column is None else f"{problem} (at column {column})")
        self.problem = problem
        self.column = column
        self.hint = hint


class UnresolvedError(ExpressionError):
    """A name for which there is no value."""

    def __init__(self, path: tuple[str | int, ...], written: str) -> None:
        super().__init__(f"${{{written}}} has no value")
        self.path = path
        self.written = written
