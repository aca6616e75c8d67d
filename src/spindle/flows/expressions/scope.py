"""The values that an expression sees, and the work that it may do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spindle.flows.expressions.errors import UnresolvedError
from spindle.flows.expressions.paths import Lookup, Path, written_path
from spindle.flows.expressions.values import WorkBudget


class Scope:
    """The values that an expression sees. `is_strict`: what is not there is an error, and so is an order
    between values that have none; otherwise the first is null, the second false."""

    __slots__ = ("budget", "is_strict", "lookup", "names", "now")

    def __init__(self, lookup: Lookup, now: Callable[[], float], *, is_strict: bool) -> None:
        self.lookup = lookup
        self.is_strict = is_strict
        self.names: dict[str, Any] = {}
        """The items of the lists that are gone through."""
        self.now = now
        self.budget = WorkBudget()

    def missing(self, path: Path) -> None:
        if self.is_strict:
            raise UnresolvedError(path, written_path(path))
