"""Signs of life of the process that executes runs. Paused runs need none, and cost nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Generator
from typing import TYPE_CHECKING, Protocol

from spindle.errors import StoreError
from spindle.ports.store import LEASE

if TYPE_CHECKING:
    from spindle.domain.run import Run
    from spindle.ports.source import Note
    from spindle.ports.store import RunStore


class HeldRun(Protocol):
    """The part of a journal that its lease is about."""

    run: Run
    held_until: float | None
    has_ended: bool

    def lose(self) -> None: ...


class RunLeases:
    """Renews the leases of all runs that execute here, by one task that lives only as long as they do.

    The task shares the event loop with the work. So a loop that stands still for some seconds loses nothing,
    and one that stands still for longer than a lease counts as dead, as a stopped process does: a thread
    would keep its runs from everybody else for ever. When the loop goes on, it learns which runs it has lost,
    and ends its work on them.
    """

    def __init__(self, store: RunStore, clock: Callable[[], float], note: Note) -> None:
        self.seconds = LEASE
        self.clock = clock
        """Counts while the process or the machine sleeps, and nobody corrects it."""
        self._store = store
        self._note = note
        self._kept: set[HeldRun] = set()
        self._task: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def kept(self, journal: HeldRun) -> Generator[None]:
        """Renews the lease of a run for as long as this is entered."""
        self.keep(journal)
        try:
            yield
        finally:
            self._kept.discard(journal)
            if not self._kept:
                self._stop()

    def keep(self, journal: HeldRun) -> None:
        """Begins to renew the lease of a run, which `kept` ends."""
        self._kept.add(journal)
        if self._task is None:
            self._task = asyncio.create_task(self._keep(), name="leases of runs")

    async def renew(self, journals: Collection[HeldRun]) -> None:
        """Renews the leases of runs, and ends the work on those that another process took over."""
        began = self.clock()
        try:
            held = await self._store.renew_leases([journal.run for journal in journals], self.seconds)
        except StoreError as error:
            self._note(f"the leases of running runs could not be renewed: {error.message}")
            # On a full disk nobody else can take them either. Look, for that takes no space.
            held = {journal.run.id for journal in journals if await self._is_held(journal)}
            began -= self.seconds
        for journal in journals:
            # One that has come to rest meanwhile is held by nobody.
            if journal.run.id in held:
                journal.held_until = max(began + self.seconds, journal.held_until or 0.0)
            elif journal.run.status == "running" and not journal.has_ended:
                journal.lose()

    async def _is_held(self, journal: HeldRun) -> bool:
        stored = await self._store.run(journal.run.id)
        return stored is None or (stored.owner, stored.generation) == (
            journal.run.owner,
            journal.run.generation,
        )

    def _stop(self) -> asyncio.Task[None] | None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        return task

    async def close(self) -> None:
        """Stops renewing."""
        task = self._stop()
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self.seconds / 3)
            stored = [held for held in self._kept if held.held_until is not None]
            if not stored:
                continue
            try:
                await self.renew(stored)
            except StoreError:
                pass  # said by `renew`; the next try, or the next write, may do better
            except Exception as error:  # noqa: BLE001 - a task's top: without it all runs would be lost
                self._note(f"the leases of running runs could not be renewed: {error!r}")
