"""The limiter of rates: of calls to a source, and of the requests of each client that is served."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spindle.domain.source import RateLimit

MAX_KEYS = 10_000


class RateLimiter:
    """Lets each key use up its calls at once, and gives them back evenly. Only keys that have used some are
    remembered, each as one number: when it will have them all back."""

    def __init__(
        self,
        limit: RateLimit,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        max_keys: int = MAX_KEYS,
    ) -> None:
        self.limit = limit
        self._each = limit.seconds / limit.calls
        # A rate below one call is one call in a longer time.
        self._room = max(limit.seconds - self._each, 0.0)
        self._now = now
        self._sleep = sleep
        self._max = max_keys
        self._whole_at: dict[str, float] = {}
        self._turn = asyncio.Lock()
        self.waiting = 0

    def take(self, key: str = "") -> float | None:
        """Takes one call. Returns None if there was one, else the seconds until there is."""
        now = self._now()
        whole_at = max(self._whole_at.get(key, now), now)
        # A hair more, because sums of fractions are not exact.
        if whole_at - now > self._room + self._each * 1e-6:
            return whole_at - now - self._room
        if key not in self._whole_at and len(self._whole_at) >= self._max:
            self._make_room(now)
        self._whole_at[key] = whole_at + self._each
        return None

    async def acquire(self) -> None:
        """Waits until the rate allows one more call. Callers are served in the order in which they came."""
        self.waiting += 1
        try:
            async with self._turn:
                while (wait := self.take()) is not None:
                    await self._sleep(wait)
        finally:
            self.waiting -= 1

    def __len__(self) -> int:
        return len(self._whole_at)

    def _make_room(self, now: float) -> None:
        kept = {key: when for key, when in self._whole_at.items() if when > now}
        if len(kept) >= self._max:
            # Those who asked most are remembered longest.
            kept = dict(heapq.nlargest(self._max // 2, kept.items(), key=lambda item: item[1]))
        self._whole_at = kept
