"""The part of the store that keeps schedules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from spindle.domain.run import Run, RunEvent
    from spindle.domain.schedule import Schedule


@runtime_checkable
class ScheduleStore(Protocol):
    """Keeps schedules, beside the runs that they begin."""

    async def time(self) -> float:
        """Returns the time by the one clock of all who share this store."""
        ...

    async def add_schedule(self, schedule: Schedule) -> bool:
        """Stores a schedule. False, and nothing is changed, if there is one of its name."""
        ...

    async def schedule(self, name: str) -> Schedule | None:
        """Returns the schedule of this name."""
        ...

    async def schedules(self) -> list[Schedule]:
        """Returns all schedules, by their names."""
        ...

    async def next_schedules(self, limit: int) -> list[Schedule]:
        """Returns those that are not paused, the first to tick first."""
        ...

    async def change_schedule(
        self, schedule: Schedule, run: Run | None = None, events: Sequence[RunEvent] = ()
    ) -> bool:
        """Writes a schedule as it stands now, and with it the run that its tick begins: one transaction.
        False, and nothing is written, if it was changed or removed since the version that this is of."""
        ...

    async def remove_schedule(self, name: str) -> bool:
        """Removes a schedule. False if there is none of this name."""
        ...
