"""Limits on how many calls run at once.

A call may pass several limits: its agent's, its pattern's and its source's. They are taken in one order
that is the same for every call, the source's last; and a call that makes further calls lends its places
to them while it waits for them. So whoever waits for a place waits only for calls that can go on, and
no arrangement of limits can deadlock.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from contextvars import ContextVar, Token

_serial = itertools.count()


class Limit:
    """Lets at most `places` calls run at once."""

    def __init__(self, places: int) -> None:
        self._semaphore = asyncio.Semaphore(places)
        self.order = next(_serial)

    async def acquire(self) -> None:
        """Waits until a call may begin."""
        await self._semaphore.acquire()

    def release(self) -> None:
        """Ends a call, so that another may begin."""
        self._semaphore.release()


def in_order(outer: Sequence[Limit], source: Limit) -> Sequence[Limit]:
    """The limits without duplicates, in the order in which every call takes them: older ones first,
    because a pattern is made inside its agent, and the source's last, so that no waiting call keeps it
    busy."""
    if not outer:
        return (source,)
    return (*sorted(set(outer) - {source}, key=lambda limit: limit.order), source)


class hold:  # noqa: N801 - used like a function
    """Hold a place in each of these limits, having lent those of the call this one is made in."""

    def __init__(self, limits: Sequence[Limit]) -> None:
        self._limits = limits
        self._held: list[Limit] = []
        self._borrowers = 0
        self._ended = False
        self._reclaiming: asyncio.Lock | None = None
        self._outer: hold | None = None
        self._token: Token[hold | None] | None = None

    async def __aenter__(self) -> None:
        outer = self._outer = _current.get()
        if outer is not None:
            outer._lend()
        self._token = _current.set(self)
        try:
            await self._take()
        except BaseException:
            await self._leave()
            raise

    async def __aexit__(self, *_: object) -> None:
        await self._leave()

    async def _leave(self) -> None:
        assert self._token is not None
        _current.reset(self._token)
        self._ended = True
        self._give_back()
        if self._outer is not None:
            await self._outer._reclaim()

    async def _take(self) -> None:
        # Places may be lent, and the call may end, while one of its parts waits to have them back.
        while len(self._held) < len(self._limits) and not (self._borrowers or self._ended):
            position = len(self._held)
            limit = self._limits[position]
            await limit.acquire()
            if self._borrowers or self._ended or len(self._held) != position:
                limit.release()
            else:
                self._held.append(limit)

    def _give_back(self) -> None:
        while self._held:
            self._held.pop().release()

    def _lend(self) -> None:
        self._borrowers += 1
        self._give_back()

    async def _reclaim(self) -> None:
        self._borrowers -= 1
        if self._ended or self._borrowers:
            return
        if self._reclaiming is None:
            self._reclaiming = asyncio.Lock()
        async with self._reclaiming:
            await self._take()


_current: ContextVar[hold | None] = ContextVar("spindle_limits", default=None)
