"""When a worker looks for new turns: as soon as one is submitted or a place is free, else now and then.

Looking costs a transaction. So those who submit ring a bell, at most so often, and workers listen.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import threading
import time
from collections.abc import Awaitable, Callable, Collection

from spindle.errors import StoreError

GAP = 0.02
"""Seconds between two looks of a worker."""
RING_GAP = 0.1
"""Seconds between two rings of a process: it costs a transaction."""
BUSY_GAP = 0.1
"""The same for one that has enough to do: it then takes several turns at a time."""
QUIET = 0.5
"""Seconds after which a worker looks that has heard nothing."""
DEAF = 0.2
"""The same for a worker that cannot listen."""
AGAIN = 1.0
"""Seconds before a lost connection is opened again."""


class Waking:
    """Tells the threads that fetch the turns of a worker when to look."""

    def __init__(self, queues: Collection[str], is_busy: Callable[[], bool] = lambda: False) -> None:
        self._is_busy = is_busy
        self._later: set[str] = set()
        """The queues of which there is news that can wait."""
        self._news = {queue: threading.Event() for queue in queues}
        self._looked = dict.fromkeys(queues, 0.0)
        self._gap = GAP * max(len(self._news), 1)
        self.can_hear = False
        self.has_ended = False

    def wake(self, queue: str | None = None) -> None:
        """Lets the thread of a queue look soon, or those of all queues."""
        can_wait = self._is_busy() and not self.has_ended
        for name in self._news if queue is None else {queue} & self._news.keys():
            self._later.add(name)  # first: who comes too late for it is woken
            if not can_wait or time.monotonic() >= self._looked[name] + BUSY_GAP:
                self._news[name].set()

    def wait(self, queue: str) -> None:
        """Returns when it is time to look. Called in the thread of this queue."""
        news = self._news[queue]
        rest = self._looked[queue] + self._gap - time.monotonic()
        if rest > 0 and not self.has_ended:
            time.sleep(rest)
        if not news.wait(BUSY_GAP) and queue not in self._later:
            news.wait((QUIET if self.can_hear else DEAF) - BUSY_GAP)
        self._later.discard(queue)
        if not self.has_ended:
            news.clear()
        self._looked[queue] = time.monotonic()

    def end(self) -> None:
        """Keeps no thread waiting any more."""
        self.has_ended = True
        self.wake()


class Bell:
    """Tells the workers of other processes that turns were submitted. Nothing is lost if they do not hear."""

    def __init__(self, ring: Callable[[Collection[str]], Awaitable[None]]) -> None:
        self._ring = ring
        self._queues: set[str] = set()
        self._ringing: asyncio.Task[None] | None = None

    def ring(self, queue: str) -> None:
        """Rings soon, for this queue."""
        self._queues.add(queue)
        if self._ringing is None:
            self._ringing = asyncio.create_task(self._all(), name="telling workers of turns")
            self._ringing.add_done_callback(self._rung)

    def _rung(self, _: object) -> None:
        self._ringing = None

    async def _all(self) -> None:
        while self._queues:
            await self._once()
            await asyncio.sleep(RING_GAP)

    async def _once(self) -> None:
        queues = frozenset(self._queues)
        with contextlib.suppress(StoreError):  # who has not heard looks by himself
            await self._ring(queues)
        self._queues -= queues

    async def close(self) -> None:
        """Rings for what was submitted last."""
        if self._ringing is not None:
            self._ringing.cancel()
            await asyncio.gather(self._ringing, return_exceptions=True)
        if self._queues:
            await self._once()


def channel_of(schema: str) -> str:
    """The name of PostgreSQL's channel on which is told of the turns in a schema."""
    return f"spindle_turns_{hashlib.sha256(schema.encode()).hexdigest()[:16]}"


async def listen(conninfo: str, schema: str, waking: Waking) -> None:
    """Wakes for each turn that others tell of, until it is cancelled."""
    import psycopg

    while True:
        with contextlib.suppress(psycopg.Error):
            connection = await psycopg.AsyncConnection.connect(conninfo, autocommit=True)
            async with connection:
                await connection.execute(f'LISTEN "{channel_of(schema)}"'.encode())
                waking.can_hear = True
                waking.wake()  # for what was told before
                async for heard in connection.notifies():
                    waking.wake(heard.payload)
        waking.can_hear = False
        await asyncio.sleep(AGAIN)
