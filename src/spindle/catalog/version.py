"""The version of the stored catalog, which other processes may change at any time."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spindle.ports.store import ToolStore

FRESH = 0.0005
"""Seconds for which the number is taken to be the same: the parts of one call do not each ask the store."""


class StoredVersion:
    """Asks the store for the number that changes with every sync of any process, once in a moment."""

    def __init__(self, store: ToolStore) -> None:
        self._store = store
        self._number = -1
        self._asked_at = -math.inf

    async def number(self) -> int:
        """Returns the number as it is, or was half a millisecond ago."""
        now = time.monotonic()
        if now - self._asked_at > FRESH:
            self._number = await self._store.catalog_version()
            self._asked_at = now
        return self._number

    def changed(self) -> None:
        """Has the store asked again, because this process has changed the tools."""
        self._asked_at = -math.inf
