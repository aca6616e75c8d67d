"""The room that a source's list may take, counted while it is read."""

from __future__ import annotations

import marshal
from typing import TYPE_CHECKING, Any

from spindle.domain.json_schema import to_json
from spindle.domain.visible import visible
from spindle.errors import ServerError

if TYPE_CHECKING:
    from spindle.domain.source import SourceConfig

MAX_CURSOR = 8192
MAX_PAGES = 1000
"""Pages of one list. A server needs no more, even with ten tools on each."""


def size_of(value: Any) -> int:
    """Returns the bytes that a JSON value takes, about."""
    try:
        return len(to_json(value))
    except (RecursionError, TypeError, ValueError):
        return len(marshal.dumps(value))  # which goes deeper


class ListBudget:
    """Counts the items, bytes and pages of one list of a source, and refuses what its settings do not allow.
    `what` is the plural of the items."""

    def __init__(self, source: str, config: SourceConfig, what: str = "tools") -> None:
        self._source = source
        self._what = what
        self._max_items = config.max_tools
        self._max_size = config.max_list_size
        self._items = 0
        self._size = 0
        self._cursors: set[str] = set()

    def take(self, items: int, size: int) -> None:
        """Takes note of so many more items and bytes. Raises ServerError once it is too much."""
        self._items += items
        self._size += size
        if self._items > self._max_items:
            raise self._refused(f"lists more than {self._max_items:,} {self._what}", "max_tools")
        if self._size > self._max_size:
            raise self._refused(f"lists {self._what} of more than {self._max_size:,} bytes", "max_list_size")

    def turn(self, cursor: str) -> None:
        """Takes note of the cursor of a further page. Raises ServerError for a list that never ends."""
        if len(cursor) > MAX_CURSOR:
            raise self._refused(f"sends a cursor of {len(cursor):,} characters for its {self._what}")
        if cursor in self._cursors:
            shown = visible(cursor[:100])
            raise self._refused(f"lists its {self._what} in a circle: the page {shown!r} came twice")
        self._cursors.add(cursor)
        if len(self._cursors) >= MAX_PAGES:
            raise self._refused(f"has more than {MAX_PAGES} pages of {self._what}")

    def _refused(self, does: str, setting: str | None = None) -> ServerError:
        hint = f"if that is meant, raise sources.{self._source}.{setting}" if setting else None
        return ServerError(
            f"{self._source!r} {does}", hint=hint or "tell the author of the server", source=self._source
        )
