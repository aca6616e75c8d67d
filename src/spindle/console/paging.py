"""Pages of a list that is at hand as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

PAGE_SIZE = 50


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list."""

    items: Sequence[T]
    number: int
    """Counted from 1."""
    total: int
    size: int = PAGE_SIZE

    @property
    def first(self) -> int:
        """The place of its first item in the list, counted from 1; 0 in an empty list."""
        return (self.number - 1) * self.size + 1 if self.items else 0

    @property
    def last(self) -> int:
        """The place of its last item in the list."""
        return (self.number - 1) * self.size + len(self.items)

    @property
    def previous(self) -> int | None:
        """The number of the page before."""
        return self.number - 1 if self.number > 1 else None

    @property
    def next(self) -> int | None:
        """The number of the page after."""
        return self.number + 1 if self.last < self.total else None


def page_of(items: Sequence[T], query: Mapping[str, str], size: int = PAGE_SIZE) -> Page[T]:
    """Returns the page that an address asks for; the last one if it asks for one beyond."""
    last = max((len(items) + size - 1) // size, 1)
    asked = query.get("page", "")
    number = min(max(int(asked[:9]), 1), last) if asked.isascii() and asked.isdigit() else 1
    return Page(items[(number - 1) * size : number * size], number, len(items), size)
