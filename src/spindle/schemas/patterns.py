"""Regular expressions of schemas: which of them everybody who gets the schema can use."""

from __future__ import annotations

from typing import Final

from spindle.domain.pattern_cost import MAX_LENGTH, states_of
from spindle.schemas.compiled import is_pattern

MAX_STATES: Final = 5_000_000
"""States of all regular expressions in a source's schemas: half a second to compile."""

MAX_OWN_STATES: Final = 500_000
"""States of one regular expression: about 50 ms to compile."""


class Patterns:
    """The regular expressions of one source, each tried once and within a budget: nothing can stop the
    library that compiles them."""

    def __init__(self) -> None:
        self._known: dict[str, str | None] = {}
        self._states = 0

    def problem(self, pattern: str) -> str | None:
        """Returns why a regular expression cannot be used, or None."""
        if pattern not in self._known:
            self._known[pattern] = self._tried(pattern)
        return self._known[pattern]

    def _tried(self, pattern: str) -> str | None:
        if len(pattern) > MAX_LENGTH:
            return f"has more than {MAX_LENGTH:,} characters"
        states = states_of(pattern)
        if states > MAX_OWN_STATES:
            return f"has more than {MAX_OWN_STATES:,} states"
        self._states += states
        if self._states > MAX_STATES:
            return "is one too many"
        return None if is_pattern(pattern) else "is not a regular expression that everybody can read"
