"""The version of the stored catalog, which other processes may change at any time."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spindle.ports.store import ToolStore

FRESH = 0.01
"""Seconds for which the number is taken to be the same, so that a busy server does not ask at each call."""


class StoredVersion:
    """Asks the store for the number that changes with every sync of any process, once in a moment."""

    def __init__(self, store: ToolStore) -> None:
        self._store = store
        self._number = -1
        self._asked_at = -math.inf
        self._changes = 0
        """Counts the changes by this process: a number that was asked for before one of them is not kept."""

    async def number(self) -> int:
        """Returns the number as it is, or was a hundredth of a second ago."""
        now = time.monotonic()
        if now - self._asked_at <= FRESH:
            return self._number
        changes = self._changes
        number = await self._store.catalog_version()
        if changes == self._changes:
            self._number, self._asked_at = number, now
        return number

    def is_still(self, number: int) -> bool:
        """True if the number is this one, as far as is known without asking."""
        return self._number == number and time.monotonic() - self._asked_at <= FRESH

    def changed(self) -> None:
        """Has the store asked again, because this process has changed the tools."""
        self._changes += 1
        self._asked_at = -math.inf
