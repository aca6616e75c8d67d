"""The share of a queue that one principal may have.

Runs beyond it are stored and held back: the engine does not know them, so whoever submits many runs makes
nobody else wait behind them. When one of a principal's runs ends or pauses, its next one is handed over.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from spindle.errors import BusyError, SpindleError

if TYPE_CHECKING:
    from spindle.domain.engine import QueueConfig
    from spindle.domain.run import Run
    from spindle.ports.engine import Engine
    from spindle.ports.source import Note
    from spindle.ports.store import RunStore

NO_END: Final = 1_000_000_000
"""Runs of one principal in a queue that does not limit them."""
TRY_AGAIN: Final = 1.0
"""Seconds after which a place in a full queue may be free."""


class QueueShares:
    """Hands runs over as far as their principals' shares let them."""

    def __init__(
        self,
        store: RunStore,
        now: Callable[[], float],
        engine: Callable[[], Engine],
        hand_over: Callable[[Run], Awaitable[None]],
        note: Note,
    ) -> None:
        self._store = store
        self._now = now
        self._engine = engine
        self._hand_over = hand_over
        self._note = note

    async def refuse_full(self, name: str, queue: QueueConfig, principal: str) -> None:
        """Raises BusyError if no more runs may wait in a queue: of anybody, or of this principal."""
        if queue.limit is None:
            return
        waiting = await self._store.queued(name, parts=False)
        if waiting >= queue.limit:
            raise BusyError(
                f"the queue {name!r} is full: {waiting} runs wait, and {queue.limit} may",
                hint="try again later, start more workers, or raise `limit` of the queue",
                retry_after=TRY_AGAIN,
            )
        most = queue.waiting_of_one
        own = 0 if most is None else await self._store.queued(name, principal=principal, parts=False)
        if most is not None and own >= most:
            raise BusyError(
                f"{own} runs of {principal!r} wait in the queue {name!r}, its share of {queue.limit}",
                hint="wait until some of them have begun, or cancel some",
                retry_after=TRY_AGAIN,
            )

    async def admit(self, name: str, principal: str) -> int:
        """Hands over runs of a principal that were held back, as far as they may begin. Returns how many."""
        queue = self._engine().queues.get(name)
        if queue is None:
            return 0  # it is not kept here any more
        count = 0
        for id in await self._store.admit(name, principal, queue.places_of_one or NO_END, self._now()):
            run = await self._store.run(id)
            if run is not None:
                await self._hand_over(run)
                count += 1
        return count

    async def freed(self, run: Run) -> None:
        """Lets the next run of a principal begin after one has ended, or waits for something."""
        if run.queue is None or run.queue not in self._engine().queues:
            return
        if self._engine().queue(run.queue).places_of_one is None:
            return
        try:
            await self.admit(run.queue, run.principal.id)
        except SpindleError as error:  # whoever watches over the runs does it instead
            self._note(f"the next run of {run.principal.id!r} could not be handed over yet: {error.message}")

    async def admit_all(self) -> None:
        """Hands over all that may begin: their time has come, or a worker died before it did so."""
        for name, principal in await self._store.held_back(self._now()):
            await self.admit(name, principal)
