"""Flows that are submitted at times, as `app.flows.schedules` offers them.

A schedule is a row in the store, and a tick is taken by changing it: the worker that does so first stores the
tick's run in the same transaction. So a tick has one run, whatever becomes of whom, and the engine gets its
first turn like that of any other run.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from spindle.calls.options import DEFAULT_OPTIONS, CallOptions
from spindle.domain.json_schema import to_json
from spindle.domain.run import DEFAULT_QUEUE, USUAL_PRIORITY
from spindle.domain.schedule import MAX_CATCH_UP, Schedule
from spindle.errors import (
    ConfigurationError,
    Interruption,
    InvalidArgumentsError,
    NotFoundError,
    SpindleError,
    StoreError,
    did_you_mean,
)
from spindle.flows.library import ENDINGS, is_pipe
from spindle.ports.schedule_store import ScheduleStore
from spindle.runs.placing import Placing
from spindle.runs.ticks import ticks_of

if TYPE_CHECKING:
    from spindle.auth.encryption import Sealer
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.run import Run
    from spindle.ports.source import Note
    from spindle.runs.submissions import Submissions

KIND: Final = "flow"
GRACE: Final = 60.0
"""Seconds after which a tick counts as missed."""
LOOK: Final = 1.0
"""Seconds after which the schedules are looked at again: for those of other processes, and for a clock that
was set."""
AT_ONCE: Final = 100
"""Schedules that are looked at together."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

Prepare = Callable[[str, Mapping[str, Any], CallOptions], Awaitable[tuple[str, "JsonObject"]]]
"""Returns the name of a flow's run and what it is given, for the flow's text, its inputs, and who runs it.
Raises what is wrong with them."""


class Schedules:
    """The schedules of a workspace."""

    def __init__(self, store: object, submissions: Submissions, sealer: Sealer, prepare: Prepare) -> None:
        self._kept = store
        self._submissions = submissions
        self._sealer = sealer
        self._prepare = prepare

    @property
    def _store(self) -> ScheduleStore:
        if not isinstance(self._kept, ScheduleStore):
            raise ConfigurationError("schedules cannot be kept: the store of runs that was given keeps none")
        return self._kept

    # --- what a user does

    async def add(
        self,
        name: str,
        flow: str,
        inputs: Mapping[str, Any] | None = None,
        options: CallOptions = DEFAULT_OPTIONS,
        *,
        cron: str | None = None,
        every: float | None = None,
        zone: str = "UTC",
        catch_up: int = 0,
        queue: str = DEFAULT_QUEUE,
        priority: int = USUAL_PRIORITY,
    ) -> Schedule:
        """Adds a schedule: the flow is submitted at each tick of a cron expression in a time zone, or every
        so many seconds. It acts for the principal of `options`. A tick that no worker took within a minute is
        missed; `catch_up` is how many missed ticks, the newest, are made up for."""
        if not _NAME.fullmatch(name):
            raise InvalidArgumentsError(
                f"a schedule cannot be called {name!r}",
                hint="a name has letters, digits, `.`, `_` and `-`, at most 100",
            )
        if (cron is None) == (every is None):
            raise InvalidArgumentsError("say when it ticks: by `cron`, or by `every`, and not by both")
        if not 0 <= catch_up <= MAX_CATCH_UP:
            raise InvalidArgumentsError(f"catch_up is {catch_up}, and 0 to {MAX_CATCH_UP} can be")
        self._submissions.engine.queue(queue)  # raises if there is no such queue, or no engine
        if not is_pipe(flow) and Path(flow).suffix.lower() in ENDINGS:
            raise InvalidArgumentsError(
                f"a schedule cannot run the file {flow}: workers would look for it elsewhere",
                hint="save the flow in flows/, and give its name",
            )
        now = await self._store.time()
        made = Schedule(
            name, "", cron, every, zone, catch_up, queue, priority, options.principal, created_at=now
        )
        next_at = ticks_of(made).after(now)
        run_name, _ = await self._prepare(flow, inputs or {}, options)
        given = {"flow": flow, "inputs": dict(inputs or {}), "use_cache": options.use_cache}
        sealed = self._sealer.seal(given, _place(made))
        made = replace(made, flow=run_name, next_at=next_at, sealed=sealed)
        if not await self._store.add_schedule(made):
            raise InvalidArgumentsError(
                f"there is a schedule {name!r} already", hint="remove that one first, or take another name"
            )
        return made

    async def all(self) -> list[Schedule]:
        """Returns all schedules, by their names."""
        return await self._store.schedules()

    async def find(self, name: str) -> Schedule:
        """Returns a schedule. Raises NotFoundError."""
        found = await self._store.schedule(name)
        if found is None:
            known = [schedule.name for schedule in await self.all()]
            hint = did_you_mean(name, known, f"known are: {', '.join(known[:20]) or 'none'}")
            raise NotFoundError(f"there is no schedule {name!r}", hint=hint)
        return found

    async def pause(self, name: str) -> Schedule:
        """Lets no tick come until it is resumed."""
        return await self._changed(name, lambda schedule, _: replace(schedule, paused=True))

    async def resume(self, name: str) -> Schedule:
        """Lets ticks come again. Those of the time between are not made up for."""

        def resumed(schedule: Schedule, now: float) -> Schedule:
            if not schedule.paused:
                return schedule
            return replace(schedule, paused=False, next_at=ticks_of(schedule).after(now))

        return await self._changed(name, resumed)

    async def _changed(self, name: str, change: Callable[[Schedule, float], Schedule]) -> Schedule:
        while True:
            changed = change(await self.find(name), await self._store.time())
            if await self._store.change_schedule(changed):
                return changed

    async def remove(self, name: str) -> None:
        """Removes a schedule. Its runs stay."""
        await self.find(name)
        await self._store.remove_schedule(name)

    async def run(self, name: str) -> Run:
        """Submits the flow of a schedule now, besides its ticks."""
        schedule = await self.find(name)
        run_name, given, options = await self._to_submit(schedule)
        return await self._submissions.submit(KIND, run_name, given, options, _placing(schedule))

    # --- ticking

    async def watch(self, note: Note) -> None:
        """Takes ticks until it is cancelled."""
        while True:
            wait = LOOK
            try:
                wait = await self.look(note)
            except SpindleError as error:
                note(f"schedules could not be looked at: {error.message}")
            await asyncio.sleep(wait)

    async def look(self, note: Note) -> float:
        """Takes the ticks that have come. Returns the seconds after which to look again."""
        for schedule in await self._store.next_schedules(AT_ONCE):
            now = await self._store.time()
            if schedule.next_at > now:
                return min(schedule.next_at - now, LOOK)
            try:
                await self._tick(schedule, now, note)
            except Exception as error:  # noqa: BLE001 - a schedule's top: the others tick all the same
                said = error.message if isinstance(error, SpindleError) else repr(error)
                note(f"schedule {schedule.name}: a tick could not be taken: {said}")
        return LOOK

    async def is_due(self) -> bool:
        """True if a tick has come that nobody has taken yet."""
        if not isinstance(self._kept, ScheduleStore):
            return False
        now = await self._store.time()
        return any(schedule.next_at <= now for schedule in await self._store.next_schedules(1))

    async def _tick(self, schedule: Schedule, now: float, note: Note) -> None:
        """Takes all ticks of a schedule that have come, as long as nobody else does."""
        ticks = ticks_of(schedule)
        ripe = _ripe(schedule, now)
        if not ripe or ripe[0] != schedule.next_at:
            note(f"schedule {schedule.name}: ticks were missed from {_shown(schedule.next_at)} on")
        if not ripe:
            error = {"category": "missed", "message": f"no worker was there at {_shown(schedule.next_at)}"}
            passed = replace(
                schedule, next_at=ticks.after(now), last_at=schedule.next_at, last_run=None, error=error
            )
            await self._store.change_schedule(passed)
        for place, tick in enumerate(ripe):
            following = ripe[place + 1] if place + 1 < len(ripe) else ticks.after(now)
            taken = await self._taken(replace(schedule, next_at=following, last_at=tick), tick, note)
            if taken is None:
                return
            schedule = taken

    async def _taken(self, schedule: Schedule, tick: float, note: Note) -> Schedule | None:
        """Stores the run of a tick, or why there is none. None: somebody else has changed the schedule."""
        run = started = None
        try:
            name, given, options = await self._to_submit(schedule)
            id = hashlib.sha256(to_json([schedule.id, tick])).hexdigest()[:32]
            run, started = await self._submissions.prepared(
                KIND, name, given, options, _placing(schedule), id
            )
            schedule = replace(schedule, last_run=id, error=None)
        except StoreError:
            raise
        except (SpindleError, Interruption) as refused:
            category = refused.category if isinstance(refused, SpindleError) else refused.kind
            error = {"category": category, "message": refused.message}
            schedule = replace(schedule, last_run=None, error=error)
        if not await self._store.change_schedule(schedule, run, [] if started is None else [started]):
            return None
        if run is not None:
            await self._submissions.hand_to_engine(run)
        elif schedule.error is not None:
            note(f"schedule {schedule.name}: its tick was refused: {schedule.error['message']}")
        return replace(schedule, version=schedule.version + 1)

    async def _to_submit(self, schedule: Schedule) -> tuple[str, JsonObject, CallOptions]:
        kept = self._sealer.open(schedule.sealed, _place(schedule))
        options = CallOptions(schedule.principal, use_cache=kept["use_cache"])
        return *await self._prepare(kept["flow"], kept["inputs"], options), options


def _ripe(schedule: Schedule, now: float) -> list[float]:
    """Returns the ticks that are due by now, without those that were missed and are not made up for."""
    ticks = ticks_of(schedule)
    missed = ticks.newest(schedule.next_at, now - GRACE, schedule.catch_up)
    recent = ticks.newest(max(schedule.next_at, now - GRACE), now, int(GRACE) + 1)
    return sorted({*missed, *recent})


def _placing(schedule: Schedule) -> Placing:
    return Placing(schedule.queue, schedule.priority)


def _place(schedule: Schedule) -> str:
    return f"schedule:{schedule.id}"


def _shown(time: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(time, UTC).isoformat(timespec="seconds")
