"""The limiter of rates: of calls to a source, and of the requests of each client that is served."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from spindle.calls.queues import MAX_WAITING, FairQueue
from spindle.errors import BusyError, SpindleError

if TYPE_CHECKING:
    from spindle.calls.stored_rates import StoredRate
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
        of: str = "this limit",
        max_waiting: int = MAX_WAITING,
        stored: StoredRate | None = None,
    ) -> None:
        """`of` names it in the error of a call that cannot wait. `stored` counts for all processes, in place
        of this one alone."""
        self._stored = stored
        self.limit = limit
        self._each = limit.seconds / limit.calls
        # A rate below one call is one call in a longer time.
        self._room = max(limit.seconds - self._each, 0.0)
        self._now = now
        self._sleep = sleep
        self._max = max_keys
        self._whole_at: dict[str, float] = {}
        self._of = of
        self._queue = FairQueue(self._busy, max_waiting)
        self._serving: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """The number of calls that wait for the rate."""
        return len(self._queue)

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

    async def acquire(self, client: str = "", seconds: float | None = None) -> float:
        """Waits until the rate allows one more call, in turns between clients. Returns the seconds that it
        took; raises BusyError if it would take longer than `seconds`, or if too many wait already."""
        if not self._queue:
            wait = self.take() if self._stored is None else await self._taken()
            if wait is None:
                return 0.0
            if seconds is not None and wait > seconds:
                raise self._busy(f"the next in {wait:.3g} s, and this call has {seconds:.3g} s", wait)
        waiting = self._queue.wait(client, seconds, self._give_back)
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve(), name=f"the rate of {self._of}")
        try:
            return await waiting
        finally:
            self._rest_if_idle()

    async def _serve(self) -> None:
        """Lets those who wait go on, as the rate allows."""
        while self._queue:
            wait = self.take() if self._stored is None else await self._taken()
            if wait is not None:
                await self._sleep(wait)
            elif self._queue.serve() is None:
                self._give_back()
            else:
                await asyncio.sleep(0)  # so that it goes before others come
        self._serving = None

    async def _taken(self) -> float | None:
        """Takes one call of those that all processes have together; while their store is away, of its own."""
        assert self._stored is not None
        try:
            return await self._stored.take()
        except SpindleError:
            return self.take()

    def _rest_if_idle(self) -> None:
        if self._serving is not None and not self._queue:
            self._serving.cancel()
            self._serving = None

    def _give_back(self) -> None:
        """Undoes `take`, for a call that was given up."""
        if self._stored is not None:
            self._stored.give_back()
            return
        self._whole_at[""] = self._whole_at.get("", 0.0) - self._each

    def _busy(self, reason: str, wait: float | None = None) -> BusyError:
        limit = self.limit
        if wait is None:
            # As if all that wait came before.
            wait = (
                max(self._whole_at.get("", 0.0) - self._now() - self._room, 0.0)
                + len(self._queue) * self._each
            )
        return BusyError(
            f"{self._of} takes {limit.calls:g} calls in {limit.seconds:g} s: {reason}",
            hint="try again later, or give the call more time (`timeout`)",
            retry_after=round(wait, 3), sent=False,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self._whole_at)

    def _make_room(self, now: float) -> None:
        kept = {key: when for key, when in self._whole_at.items() if when > now}
        if len(kept) >= self._max:
            # Those who asked most are remembered longest.
            kept = dict(heapq.nlargest(self._max // 2, kept.items(), key=lambda item: item[1]))
        self._whole_at = kept
