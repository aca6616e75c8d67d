"""The part of the store that keeps runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from spindle.domain.run import EventKind, Pause, Run, RunEvent, RunStatus

LEASE = 30.0
"""Seconds without a sign of life after which others may take what a process holds; longer only if all do."""
Claim = Literal["claimed", "noted", "unknown", "used", "expired"]
"""The effect of an answer to a pause: the run is ours to continue; another process that executes the run
will find it; there is no such pause; it was answered before; it came too late."""


class RunStore(Protocol):
    """Keeps runs, their events, and the pauses in which they wait for people.

    A run has one holder: the `owner` that saved it first, or took it last, under the `generation` that it had
    since. Each write of a run checks that in its own transaction, so one who slept can overwrite nothing.
    Leases are judged by one clock, the store's: nobody else's matters.
    """

    async def save_run(self, run: Run, events: Sequence[RunEvent] = (), pauses: Sequence[Pause] = ()) -> bool:
        """Writes the run as it stands, and adds events and pauses, in one transaction. False, and nothing is
        written, if it is stored and not held by `run.owner` under `run.generation`. An event that is already
        stored stays, and so do the first outcome of a step and a pause; but one that is given as answered is
        closed."""
        ...

    async def run(self, id: str) -> Run | None:
        """Returns the run with this id, or with an id that begins so if only one does."""
        ...

    async def runs(
        self,
        *,
        limit: int,
        status: RunStatus | None = None,
        principal: str | None = None,
        kind: str | None = None,
        name: str | None = None,
        before: str | None = None,
    ) -> list[Run]:
        """Returns runs, the newest first; parts of batches only by their kind. A negative limit is none.
        `before`: the id of a run; only those that are older, for the next page."""
        ...

    async def newest_event(self) -> int:
        """Returns the number of the newest event of all runs: another one once any of them has gone on."""
        ...

    async def parts(self, prefix: str) -> dict[str, RunStatus]:
        """Returns the statuses of the parts of batches whose ids begin so, in the order of their ids."""
        ...

    async def save_events(self, run: Run, events: Sequence[RunEvent]) -> bool:
        """Adds these events to a stored run, in one transaction, under the conditions of `save_run`."""
        ...

    def save_events_at_once(self, run: Run, events: Sequence[RunEvent]) -> bool | None:
        """The same without waiting for anything. Returns None, having written nothing, where it would have
        to."""
        ...

    async def history(self, run: str, kind: EventKind | None = None) -> list[RunEvent]:
        """Returns a run's events, all or those of a kind, in the order in which they were saved."""
        ...

    async def pause(self, token: str) -> Pause | None:
        """Returns the pause with this token, answered or not."""
        ...

    async def pauses(
        self,
        *,
        run: str | None = None,
        principal: str | None = None,
        source: str | None = None,
        waiting: bool = True,
    ) -> list[Pause]:
        """Returns pauses, the oldest first. `waiting` leaves out those that were answered."""
        ...

    async def answered(self, limit: int) -> list[Pause]:
        """Returns pauses that have an answer, the newest first."""
        ...

    async def due(self, limit: int) -> list[Pause]:
        """Returns waits that end by their time, the first to end first."""
        ...

    async def claim(self, token: str, answer: bytes | None, owner: str, lease: float, now: float) -> Claim:
        """Answers a pause, at most once, and takes over its run for `lease` seconds if nobody executes it:
        one transaction."""
        ...

    async def take_run(self, id: str, owner: str, lease: float, now: float) -> bool:
        """Takes over a run that nobody executes: it is paused or cancelled, or its owner's lease ended."""
        ...

    async def take_turn(self, id: str, turn: int, owner: str, lease: float, now: float) -> Run | None:
        """Takes over a submitted run for its turn, whoever holds it: an engine has decided. Returns it as it
        stands then, or None if the turn is not its last, or it has paused or ended since."""
        ...

    async def reopen(self, id: str, owner: str, lease: float, now: float) -> bool:
        """Takes over a run that has failed or was cancelled."""
        ...

    async def queued(
        self, queue: str, *, principal: str | None = None, due_by: float | None = None, parts: bool = True
    ) -> int:
        """Returns how many runs wait in a queue: of a principal, those that may begin by a time, without the
        parts of batches."""
        ...

    async def admit(self, queue: str, principal: str, most: int, now: float) -> list[str]:
        """Gives the next turn to runs of a principal that are held back in a queue, the first in order, until
        `most` of its runs execute or are handed over. Returns their ids. One transaction."""
        ...

    async def held_back(self, now: float) -> list[tuple[str, str]]:
        """Returns the queues and principals that have runs held back which may begin now."""
        ...

    async def adrift(self, before: float, lease: float, limit: int) -> list[Run]:
        """Returns submitted runs that may have nobody, the oldest first: whose holder's lease has ended, and
        those that were queued before a time and could have begun by then. `lease`: the longest that any
        holder has."""
        ...

    async def renew_leases(self, runs: Sequence[Run], lease: float) -> set[str]:
        """Renews the leases of runs, and returns the ids of those that are still held as they say."""
        ...


class TraceStore(Protocol):
    """Keeps events of other frameworks, which belong to no run."""

    async def save_trace(self, events: Sequence[RunEvent]) -> None:
        """Adds these events, in one transaction. `RunStore.history` returns them by their `run`."""
        ...
