"""Signs of life of the process that executes runs. Paused runs need none, and cost nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import TYPE_CHECKING

from spindle.errors import StoreError

if TYPE_CHECKING:
    from spindle.ports.source import Note
    from spindle.ports.store import RunStore
    from spindle.runs.journal import RunJournal

LEASE = 30.0
"""Seconds without a sign of life after which a run may be taken over."""


class RunLeases:
    """Renews the leases of all runs that execute here, by one task that lives only as long as they do."""

    def __init__(self, store: RunStore, owner: str, now: Callable[[], float], note: Note) -> None:
        self._store = store
        self._owner = owner
        self._now = now
        self._note = note
        self._kept: set[RunJournal] = set()
        self._task: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def kept(self, journal: RunJournal) -> Generator[None]:
        """Renews the lease of a run for as long as this is entered."""
        journal.run = replace(journal.run, owner=self._owner, lease_until=self._now() + LEASE)
        self._kept.add(journal)
        if self._task is None:
            self._task = asyncio.create_task(self._renew(), name="leases of runs")
        try:
            yield
        finally:
            self._kept.discard(journal)
            if not self._kept:
                self._stop()

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

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(LEASE / 3)
            until = self._now() + LEASE
            if any(journal.is_stored for journal in self._kept):
                try:
                    await self._store.renew_leases(self._owner, until)
                except StoreError as error:
                    self._note(f"the leases of running runs could not be renewed: {error.message}")
                    continue
            for journal in self._kept:
                lease = journal.run.lease_until
                # One that ran out while this process slept may be another's: the journal looks first.
                if lease is not None and lease > until - LEASE:
                    journal.run = replace(journal.run, lease_until=until)
