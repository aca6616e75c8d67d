"""Values that a filter may have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

MOST: Final = 200


@dataclass(frozen=True, slots=True)
class Choice:
    """A value, and how many things have it, if that was counted."""

    value: str
    count: int | None = None


def counted(values: Iterable[str]) -> list[Choice]:
    """Returns each value once, by name; at most `MOST`, since nobody reads more."""
    return [Choice(value, count) for value, count in sorted(Counter(values).items())[:MOST]]
