"""Rates that hold over all processes of a workspace, counted in the database that they share."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from spindle.domain.bounded import BoundedMap
from spindle.ports.serving_store import QuotaUse

if TYPE_CHECKING:
    from spindle.domain.source import RateLimit
    from spindle.ports.serving_store import QuotaStore

PIECES: Final = 20
"""A process takes this part of a rate at a time, and the next when that is used up, so that not every call
asks the store. Of a rate of fewer calls it takes each by itself."""
MAX_KEYS: Final = 10_000


class StoredRate:
    """Lets each key use up its calls at once, in all processes together, and gives them back evenly."""

    def __init__(
        self, name: str, limit: RateLimit, store: QuotaStore, now: Callable[[], float] = time.time
    ) -> None:
        """`name` is that of the rate, for all processes."""
        self._name = name
        self.limit = limit
        self._store = store
        self._now = now
        self._each = limit.seconds / limit.calls
        self._piece = max(1, int(limit.calls // PIECES))
        self._held: BoundedMap[str, tuple[int, float]] = BoundedMap(MAX_KEYS)
        """By key, the calls that this process has taken and not used, and until when they are good."""

    async def take(self, key: str = "") -> float | None:
        """Takes one call. Returns None if there was one, else the seconds until there is. Raises a
        SpindleError if the store cannot be asked."""
        now, wait = self._now(), 0.0
        if (held := self._left(key, now)) > 0:
            self._held[key] = held - 1, self._held[key][1]
            return None
        for count in dict.fromkeys((self._piece, 1)):
            use = QuotaUse(f"{self._name} {key}", self._each * count, max(self.limit.seconds, self._each))
            refusal = await self._store.take_quota([use], [], "", 0.0, now)
            if refusal is None:
                # Others of the same key may have taken a piece meanwhile.
                self._held[key] = self._left(key, now) + count - 1, now + self.limit.seconds / PIECES
                return None
            wait = refusal.wait
        return wait

    def give_back(self, key: str = "") -> None:
        """Undoes `take`, for a call that was given up."""
        now = self._now()
        self._held[key] = self._left(key, now) + 1, now + self.limit.seconds / PIECES

    def _left(self, key: str, now: float) -> int:
        held, until = self._held.get(key) or (0, 0.0)
        return held if now < until else 0
