"""The version of the stored catalog, which other processes may change at any time."""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spindle.ports.store import ToolStore

FRESH = 0.01
"""Seconds for which the number is taken to be the same, so that a busy server does not ask at each call."""
FRESH_IN_WORKER = 0.1
"""The same for runs that have waited in a queue."""


class StoredVersion:
    """Asks the store for the number that changes with every sync of any process, once in a moment for all who
    want to know."""

    def __init__(self, store: ToolStore) -> None:
        self._store = store
        self.fresh = FRESH
        self._number = -1
        self._asked_at = -math.inf
        self._asking: asyncio.Task[int] | None = None
        """The question that is not answered yet."""
        self._changes = 0
        """Counts the changes by this process: a number that was asked for before one of them is not kept."""

    async def number(self) -> int:
        """Returns the number as it is, or was a hundredth of a second ago."""
        now = time.monotonic()
        if now - self._asked_at > self.fresh and not self._read_at_once(now):
            self._asked_at = now
            self._asking = asyncio.create_task(self._ask(), name="version of the catalog")
            self._asking.add_done_callback(_heard)
        # Who asks first may give up; the others still want to know.
        return self._number if self._asking is None else await asyncio.shield(self._asking)

    async def _ask(self) -> int:
        changes, this = self._changes, asyncio.current_task()
        try:
            number = await self._store.catalog_version()
        except BaseException:
            if self._asking is this:
                self._asking, self._asked_at = None, -math.inf
            raise
        if self._asking is this:
            self._asking = None
            if changes == self._changes:
                self._number = number
        return number

    def is_still(self, number: int) -> bool:
        """True if the number is this one, as far as is known without asking."""
        now = time.monotonic()
        is_fresh = now - self._asked_at <= self.fresh or self._read_at_once(now)
        return is_fresh and self._asking is None and self._number == number

    def _read_at_once(self, now: float) -> bool:
        """Reads the number where that takes no waiting, as it does in a file of this machine: a task that
        asks would cost every fiftieth call as much as the call itself."""
        number = self._store.version_at_once()
        if number is None:
            return False
        self._number, self._asked_at, self._asking = number, now, None
        return True

    def changed(self) -> None:
        """Has the store asked again, because this process has changed the tools."""
        self._changes += 1
        self._asked_at = -math.inf


def _heard(asking: asyncio.Task[int]) -> None:
    """Whoever waited for it may have been given up."""
    if not asking.cancelled():
        asking.exception()
