"""Limits on how many calls run at once.

A call may pass several limits: its agent's, its pattern's and its source's. They are taken in one order
that is the same for every call, the source's last; and a call that makes further calls lends its places
to them while it waits for them. So whoever waits for a place waits only for calls that can go on, and
no arrangement of limits can deadlock. Places are given in turns between clients, and of a source's places no
client takes all, so that one whose calls take long does not keep the others waiting.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from contextvars import ContextVar
from functools import partial
from typing import Final, Self

from spindle.calls.queues import MAX_WAITING, FairQueue
from spindle.errors import BusyError

_serial = itertools.count()

EVERYBODY: Final = frozenset({"local", "client"})
"""The owner of the workspace, and the holders of its one token: where they call there is nobody else."""
MOST_OF_FREE: Final = 4
"""Places that a client may have for each that stays free: up to four fifths of them all."""


class Limit:
    """Lets at most `places` calls run at once."""

    def __init__(
        self,
        places: int,
        of: str = "this limit",
        hint: str | None = None,
        max_waiting: int = MAX_WAITING,
        *,
        is_shared: bool = False,
    ) -> None:
        """`of` and `hint` are for the error of a call that gets no place: the owner of the places, and the
        way out. At most `max_waiting` calls wait for one. `is_shared`: places are kept free for clients that
        have none, or few."""
        self.places = places
        self.free = places
        self.order = next(_serial)
        self._of = of
        self._hint = hint
        self._is_shared = is_shared
        self._held: dict[str, int] = {}
        """By client, the places that it has, where they are shared."""
        self._queue = FairQueue(self._busy, max_waiting)

    @property
    def waiting(self) -> int:
        """The number of calls that wait for a place."""
        return len(self._queue)

    def take(self, client: str = "") -> bool:
        """Takes a place if one is free for this client. Returns False if there is none."""
        if self.free and client in EVERYBODY:
            self.free -= 1
            return True
        if not self.free or (self._is_shared and not self._may_take(client)):
            return False
        self._taken(client)
        return True

    def _may_take(self, client: str) -> bool:
        held = self._held.get(client)
        return held is None or held < MOST_OF_FREE * (self.free - 1)

    def _taken(self, client: str) -> None:
        self.free -= 1
        if self._is_shared and client not in EVERYBODY:
            self._held[client] = self._held.get(client, 0) + 1

    async def wait(self, client: str = "", seconds: float | None = None, *, bounded: bool = True) -> float:
        """Waits for a place and takes it. Returns the seconds that it took; raises BusyError after `seconds`,
        or if too many wait already."""
        return await self._queue.wait(client, seconds, partial(self.release, client), bounded=bounded)

    def release(self, client: str = "") -> None:
        """Ends a call of this client, so that another may begin."""
        held = self._held.get(client)
        if held is not None:
            self._held[client] = held - 1
            if held == 1:
                del self._held[client]
        self.free += 1
        while self._queue.count and self.free:
            served = self._queue.serve(self._may_take if self._is_shared else None)
            if served is None:
                return
            self._taken(served)

    def _busy(self, reason: str) -> BusyError:
        return BusyError(
            f"all {self.places} places of {self._of} are taken: {reason}",
            hint=self._hint, retry_after=1.0, sent=False,
        )  # fmt: skip


def in_order(outer: Sequence[Limit], source: Limit) -> Sequence[Limit]:
    """The limits without duplicates, in the order in which every call takes them: older ones first,
    because a pattern is made inside its agent, and the source's last, so that no waiting call keeps it
    busy."""
    if not outer:
        return (source,)
    return (*sorted(set(outer) - {source}, key=lambda limit: limit.order), source)


class hold:  # noqa: N801 - used like a function
    """Hold a place in each of these limits, having lent those of the call this one is made in. `seconds` is
    the time in which the last must have one: the others are the caller's own, who knows how long to wait."""

    __slots__ = (
        "_borrowers", "_client", "_ended", "_held", "_limits", "_outer", "_reclaiming", "_seconds", "_token",
        "waited",
    )  # fmt: skip

    def __init__(self, limits: Sequence[Limit], client: str = "", seconds: float | None = None) -> None:
        self.waited = 0.0
        """The part of `seconds` that went by."""
        self._borrowers = 0
        self._ended = False
        self._reclaiming: asyncio.Lock | None = None
        self._limits = limits
        self._client = client
        self._seconds = seconds
        self._held: list[Limit] = []

    async def __aenter__(self) -> Self:
        if not self.at_once():
            await self.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.leave() is not None:
            await self.reclaim()

    # The same in its parts, since most calls neither wait for a place nor have borrowed one.

    def at_once(self) -> bool:
        """Enters. Returns False if that is done only after a `wait`."""
        outer = self._outer = _current.get()
        self._token = _current.set(self)
        if outer is not None:
            outer.lend()
        elif len(self._limits) == 1 and self._limits[0].take(self._client):
            self._held.append(self._limits[0])
            return True
        return False

    async def wait(self) -> None:
        """Waits for the places. Leaves if that fails."""
        try:
            await self._take(is_first=True)
        except BaseException:
            await self.__aexit__()
            raise

    def leave(self) -> hold | None:
        """Gives the places back. Returns the holder that had lent its own, who is to `reclaim` them."""
        _current.reset(self._token)
        self._ended = True
        while self._held:
            self._held.pop().release(self._client)
        return self._outer

    async def reclaim(self) -> None:
        """Gets back the places that were lent for this one."""
        if self._outer is not None:
            await self._outer.take_back()

    async def _take(self, *, is_first: bool) -> None:
        # Places may be lent, and the call may end, while one of its parts waits to have them back.
        while len(self._held) < len(self._limits) and not (self._borrowers or self._ended):
            position = len(self._held)
            limit = self._limits[position]
            if not limit.take(self._client):
                is_last = is_first and position == len(self._limits) - 1
                seconds = self._seconds if is_last else None
                # A call that goes on had its place already, and cannot be turned away.
                waited = await limit.wait(self._client, seconds, bounded=is_first)
                self.waited = waited if is_last else 0.0
            if self._borrowers or self._ended or len(self._held) != position:
                limit.release(self._client)
            else:
                self._held.append(limit)

    def _give_back(self) -> None:
        while self._held:
            self._held.pop().release(self._client)

    def lend(self) -> None:
        """Gives the places to others until `take_back`: the call waits for something else than its source."""
        self._borrowers += 1
        self._give_back()

    async def take_back(self) -> None:
        """Waits for the places that were lent, unless others still have them."""
        self._borrowers -= 1
        if self._ended or self._borrowers:
            return
        if self._reclaiming is None:
            self._reclaiming = asyncio.Lock()
        async with self._reclaiming:
            await self._take(is_first=False)


_current: ContextVar[hold | None] = ContextVar("spindle_limits", default=None)
