"""The arguments of the items of a batch, made when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, overload

from spindle.domain.json_schema import to_json

if TYPE_CHECKING:
    from spindle.domain.json_schema import JsonObject

AT_A_TIME: Final = 500
"""Items that are looked at before others have their turn."""


class PreparedItems(Sequence[Any]):
    """The arguments of each item of a long list. Each look at them makes them anew, so that the list is not
    held a second time."""

    def __init__(self, items: Sequence[Any], make: Callable[[Any], Any]) -> None:
        self._items = items
        self._make = make

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self._make(item) for item in self._items[index]]
        return self._make(self._items[index])

    def then(self, make: Callable[[Any], Any]) -> PreparedItems:
        """Returns what `make` makes of each."""
        return PreparedItems(self, make)


class KeptItems:
    """The items of a batch as the history keeps them: all of them, or only their size."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 1
        self._kept: list[Any] = []

    def add(self, item: Any) -> None:
        """Counts one more."""
        self._size += _size_of(item) + 1
        if self._size <= self._most:
            self._kept.append(item)
        else:
            self._kept.clear()

    @property
    def value(self) -> list[Any] | JsonObject:
        """All that were added, or what is told of so much."""
        return self._kept if self._size <= self._most else {"$left_out": f"{self._size} bytes"}


def _size_of(item: Any) -> int:
    try:
        return len(to_json(item, default=repr))
    except (TypeError, ValueError, RecursionError):  # whoever writes it says so
        return len(repr(item))
