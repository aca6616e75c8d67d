"""Parts of pages that many open pages ask for at once: rendered once, for all who would see the same."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import TYPE_CHECKING, Final

from spindle.console.live import CROWD
from spindle.domain.bounded import BoundedMap

if TYPE_CHECKING:
    from spindle.console.live import LiveUpdates

LASTS: Final = 5.0
"""Seconds after which a part is rendered again, whatever has changed."""
MOST: Final = 100


class SharedParts:
    """Keeps parts until pages are told of the next change, while there are many pages. Whatever a part shows
    wrongly meanwhile, the next change of its topic has every page ask again."""

    def __init__(self, live: LiveUpdates) -> None:
        self._live = live
        self._kept: BoundedMap[Hashable, tuple[int, float, str]] = BoundedMap(MOST)
        self._making: dict[Hashable, asyncio.Future[str]] = {}
        """Those that are rendered at this moment."""

    async def get(self, key: Hashable, make: Callable[[], Awaitable[str]]) -> str:
        """Returns a part. `key` says who looks at what; `make` renders it."""
        if self._live.pages < CROWD:
            return await make()
        changes, now = self._live.changes, time.monotonic()
        kept = self._kept.get(key)
        if kept is not None and kept[0] == changes and now - kept[1] < LASTS:
            return kept[2]
        making = self._making.get((key, changes))
        if making is None:
            making = self._making[key, changes] = asyncio.ensure_future(make())
            making.add_done_callback(lambda _: self._making.pop((key, changes), None))
        # One who leaves takes nothing from the others.
        made = await asyncio.shield(making)
        self._kept[key] = (changes, now, made)
        return made
