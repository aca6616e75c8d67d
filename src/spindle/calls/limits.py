"""How much may happen at once, and how often.

A call may pass several limits: its agent's, its pattern's and its source's. They are taken in that
order, and a call that makes further calls lends its places to them while it waits: nobody waits for
a place while holding one, so no arrangement of limits can deadlock.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from contextvars import ContextVar


class Limit:
    """At most `places` holders at once."""

    def __init__(self, places: int) -> None:
        self._semaphore = asyncio.Semaphore(places)

    async def acquire(self) -> None:
        await self._semaphore.acquire()

    def release(self) -> None:
        self._semaphore.release()


class _Holding:
    """The places that one running call holds, unless it has lent them to calls made inside it."""

    def __init__(self, limits: Sequence[Limit]) -> None:
        self._limits = limits
        self._held: list[Limit] = []
        self._borrowers = 0

    async def take(self) -> None:
        for limit in self._limits:
            await limit.acquire()
            self._held.append(limit)

    def give_back(self) -> None:
        while self._held:
            self._held.pop().release()

    def lend(self) -> None:
        self._borrowers += 1
        self.give_back()

    async def reclaim(self) -> None:
        self._borrowers -= 1
        if self._borrowers == 0:
            await self.take()


_current: ContextVar[_Holding | None] = ContextVar("spindle_limits", default=None)


@contextlib.asynccontextmanager
async def hold(limits: Sequence[Limit]) -> AsyncGenerator[None]:
    """Hold a place in each of these limits, having lent those of the call this one is made in."""
    outer = _current.get()
    if outer is not None:
        outer.lend()
    try:
        mine = _Holding(limits)
        token = _current.set(mine)
        try:
            await mine.take()
            yield
        finally:
            _current.reset(token)
            mine.give_back()
    finally:
        if outer is not None:
            await outer.reclaim()
