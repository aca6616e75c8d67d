"""Batches over workers: a run submits parts of a batch, which are runs of their own, and waits for their end.

It pauses meanwhile, like a run that waits for a person: it has no process and no place in its queue. The ids
of its parts are made of the run and the place in it, so whoever goes on with it finds those that are there,
and each is submitted once. What a part was given, and what came of it, stays with the part.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Protocol

from spindle.calls.allowance import Spent
from spindle.calls.options import CallOptions
from spindle.domain.bounded import BoundedMap
from spindle.domain.json_schema import is_object
from spindle.domain.run import PART, Run, RunStatus
from spindle.errors import (
    CancelledCallError,
    ClientError,
    PermissionDeniedError,
    SpindleError,
    StoreAwayError,
)
from spindle.runs.outcomes import open_content, outcome_of
from spindle.runs.placing import Placing
from spindle.runs.waits import WaitRequired

if TYPE_CHECKING:
    from spindle.auth.encryption import Sealer
    from spindle.domain.call import Host, Result
    from spindle.domain.json_schema import JsonObject
    from spindle.ports.source import Note
    from spindle.ports.store import RunStore
    from spindle.runs.journal import RunJournal
    from spindle.runs.outcomes import Outcome

PARTS: Final = ":parts"
"""The `source` of pauses in which runs wait for their parts."""
OPEN: Final = frozenset({"queued", "running", "paused"})
AT_ONCE: Final = 10
"""Parts that are submitted at the same time."""
SPENT: Final = "spent"
"""Key of what a part tells: the use that it has made of models."""
OF, PREFIX, KEEPS_ERRORS = "part_of", "parts", "keeps_errors"
"""Keys of what a part is given: its run, the beginning of its id, and if failures let the others go on."""

Parts = Mapping[str, RunStatus]


def ids_of(run: str, place: str = "") -> str:
    """Returns the beginning of the ids of all parts of a run, or of those at one place in it."""
    of_place = hashlib.sha256(place.encode()).hexdigest()[:8] if place else ""
    return hashlib.sha256(f"parts of {run}".encode()).hexdigest()[:16] + of_place


def are_over(parts: Parts, *, keeps_errors: bool) -> bool:
    """True if nothing more of a batch is to be waited for."""
    has_failed = any(status in ("failed", "cancelled") for status in parts.values())
    return (has_failed and not keeps_errors) or not any(status in OPEN for status in parts.values())


class SubmitsParts(Protocol):
    """The part of `Submissions` that is needed here."""

    async def submit(
        self, kind: str, name: str, given: JsonObject, options: CallOptions, placing: Placing
    ) -> Run: ...
    async def cancel(self, run: Run, why: str) -> None: ...
    async def retry(self, id: str) -> Outcome | None: ...


class BatchParts:
    """The parts of all batches of a workspace."""

    def __init__(
        self,
        submissions: SubmitsParts,
        resume: Callable[[str], Awaitable[Outcome]],
        store: RunStore,
        sealer: Sealer,
        note: Note,
    ) -> None:
        self.submissions = submissions
        self.store = store
        self.sealer = sealer
        self._resume = resume
        self._note = note
        self._spent: BoundedMap[str, JsonObject | None] = BoundedMap(10_000)
        """By part that has ended, what it has used; None: nothing."""

    async def is_orphan(self, given: JsonObject) -> bool:
        """True for a part whose run has ended without it."""
        run = await self.store.run(given[OF])
        return run is None or run.status not in OPEN

    async def ended(self, given: JsonObject) -> None:
        """Lets the run of a part go on, if this was the last that it waits for."""
        try:
            if are_over(await self.store.parts(given[PREFIX]), keeps_errors=given[KEEPS_ERRORS]):
                await self._continue(given[OF])
        except SpindleError as error:  # whoever watches over the runs does it instead
            self._note(f"run {given[OF]} could not go on after its parts yet: {error.message}")

    async def look(self) -> None:
        """Lets all runs go on whose parts have ended, in case the process died that should have done so."""
        for pause in await self.store.pauses(source=PARTS):
            details = open_content(self.sealer, pause)["details"]
            parts = await self.store.parts(details[PREFIX])
            if are_over(parts, keeps_errors=details[KEEPS_ERRORS]):
                await self._continue(pause.run)

    async def _continue(self, id: str) -> None:
        run = await self.store.run(id)
        if run is None or run.status != "paused":
            return
        with contextlib.suppress(ClientError):  # another was faster
            await self._resume(id)

    async def spent(self, prefix: str) -> Spent:
        """Returns what the parts that have ended used together. Each is read once in this process."""
        total = Spent()
        for id, status in (await self.store.parts(prefix)).items():
            if status not in ("done", "failed"):
                continue
            if id not in self._spent:
                self._spent[id] = await self._told(id)
            used = self._spent[id]
            total = total if used is None else total.plus(used)
        return total

    async def _told(self, id: str) -> JsonObject | None:
        try:
            told = (await outcome_of(self.store, self.sealer, id)).structured
        except SpindleError as error:
            told = error.details
        return told.get(SPENT) if is_object(told) else None

    async def cancel(self, prefix: str, why: str) -> None:
        """Ends the parts that have not ended, wherever they are."""
        for id, status in (await self.store.parts(prefix)).items():
            if status in OPEN and (part := await self.store.run(id)) is not None and part.status in OPEN:
                await self.submissions.cancel(part, why)


class RunParts:
    """The parts of one run, while it executes in a worker."""

    def __init__(self, all: BatchParts, journal: RunJournal) -> None:
        self._all = all
        self._journal = journal

    async def outcomes(
        self, place: str, parts: int, make: Callable[[int], JsonObject], host: Host, *, keeps_errors: bool
    ) -> AsyncIterator[Result | SpindleError | None]:
        """Yields what became of the parts of a batch, in their order; None for one that was cancelled. One
        after the other: all of them may be more than one process should hold. `make` says what a part is
        given. Raises Interruption while they are not over."""
        run, store = self._journal.run, self._all.store
        prefix = self.prefix(place, host)
        known = await store.parts(prefix)
        missing = [index for index in range(parts) if id_of(prefix, index) not in known]

        async def submit(index: int) -> None:
            self._journal.refuse_when_lost()
            given = {**make(index), OF: run.id, PREFIX: prefix, KEEPS_ERRORS: keeps_errors}
            # After other runs of the same priority: a large batch lets them pass.
            placing = Placing(run.queue or "", run.priority + 1, id=id_of(prefix, index))
            options = CallOptions(run.principal, use_cache=self._journal.given["use_cache"])
            await self._all.submissions.submit(PART, run.name, given, options, placing)

        for first in range(0, len(missing), AT_ONCE):
            await asyncio.gather(*map(submit, missing[first : first + AT_ONCE]))
        if self._journal.known.retries:
            await host.remember(f"parts of {place}", self._journal.known.retries, self._again(prefix))
        found = await store.parts(prefix)
        if not are_over(found, keeps_errors=keeps_errors):
            details = {PREFIX: prefix, KEEPS_ERRORS: keeps_errors, "count": parts}
            reply = host.ask(
                WaitRequired(f"{place} waits for {parts} parts of its batch", source=PARTS, details=details)
            )
            await self._all.cancel(prefix, "nobody waits for it any more")
            raise PermissionDeniedError(reply.refused or f"{place} was not waited for")
        await self._all.cancel(prefix, "another part of the batch failed")
        for id, status in found.items():
            yield await self._outcome(id, status)

    async def spent(self, given: JsonObject) -> Spent:
        """Returns what the parts have used that ended before this run, which is a part of the same batch."""
        return await self._all.spent(given[PREFIX])

    def prefix(self, place: str, host: Host) -> str:
        """Returns the beginning of the ids of the parts of a batch."""
        return ids_of(self._journal.run.id, f"{host.step_id} {place}")

    def _again(self, prefix: str) -> Callable[[Host], Awaitable[int]]:
        """Lets the parts go on that failed, once for each retry of the run."""

        async def make(_: Host) -> int:
            count = 0
            for id, status in (await self._all.store.parts(prefix)).items():
                if status in ("failed", "cancelled"):
                    with contextlib.suppress(ClientError):  # it goes on already
                        await self._all.submissions.retry(id)
                    count += 1
            return count

        return make

    async def _outcome(self, id: str, status: RunStatus) -> Result | SpindleError | None:
        if status not in ("done", "failed"):
            return None
        try:
            return await outcome_of(self._all.store, self._all.sealer, id)
        except StoreAwayError:
            raise
        except SpindleError as error:
            return error


spreading: ContextVar[RunParts | None] = ContextVar("spindle_parts", default=None)
"""The parts of the run that a worker executes in this context; None where batches are done in one piece."""


def orphaned() -> CancelledCallError:
    """Returns the end of a part whose run has ended without it."""
    return CancelledCallError("the run that it is a part of has ended")


def id_of(prefix: str, index: int) -> str:
    """Returns the id of a part of a batch."""
    return f"{prefix}{index:08x}"
