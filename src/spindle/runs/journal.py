"""The record of one run while it executes: which steps are done, what people answered, what is asked now."""

from __future__ import annotations

import asyncio
import bisect
import itertools
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from spindle.domain.call import Reply, Result, new_id
from spindle.domain.json_schema import JsonObject, from_json, to_json
from spindle.domain.run import Begun, EventKind, Pause, Run, RunEvent
from spindle.errors import InputRequired, Interruption, RunLostError, SpindleError, StoreError
from spindle.remedies import Remedy
from spindle.runs.outcomes import open_content, written
from spindle.runs.record import RunRecord
from spindle.runs.stops import Branches, Stops, below
from spindle.runs.waits import ends_at, is_over, said_to_all, token_of

if TYPE_CHECKING:
    from spindle.auth.encryption import Sealer
    from spindle.domain.identity import Principal
    from spindle.ports.source import Note
    from spindle.ports.store import RunStore
    from spindle.runs.leases import RunLeases

T = TypeVar("T")
HOST = socket.gethostname()
WAITS = (0.1, 0.4)
"""Seconds before the next try to note that a call is begun."""


class RunJournal:
    """One execution of a run, from its start or resumption to its end or next pause."""

    def __init__(
        self,
        run: Run,
        given: JsonObject,
        store: RunStore,
        sealer: Sealer,
        now: Callable[[], float],
        leases: RunLeases,
        note: Note,
        *,
        history: Sequence[RunEvent] = (),
        pauses: Sequence[Pause] = (),
        held_until: float | None = None,
    ) -> None:
        self.run = run
        self.given = given
        self.held_until = held_until
        """By the clock of the leases, when this process may have lost the run unless it gives a sign of life.
        None: others cannot know of it yet. One that makes no steps and does not pause is never stored."""
        self.asked: dict[str, Pause] = {}
        """By place, the pauses that this execution has come to."""
        self.replaced: list[Pause] = []
        """Pauses that must not be answered any more, because the same is asked anew."""
        self.tasks: set[asyncio.Task[None]] = set()
        self.work: asyncio.Task[Result] | None = None
        """The work around the steps, where it can be ended alone."""
        self.has_ended = False
        self.is_suspended = False
        self.is_lost = False
        self._store = store
        self._sealer = sealer
        self._now = now
        self._leases = leases
        self._note = note
        self.known = RunRecord(history, sealer)
        self._waiting = {pause.path: pause for pause in pauses if pause.state == "waiting"}
        self._answered = {pause.path: pause for pause in pauses if pause.answer is not None}
        self._stored = frozenset(pause.token for pause in pauses)
        self.stops = Stops()
        self._stem, self._numbers = new_id()[:24], itertools.count()
        self._unsaved: list[RunEvent] = []
        self._saving = asyncio.Lock()
        self._next_write: asyncio.Task[None] | None = None

    @property
    def is_stored(self) -> bool:
        """True once others can know of the run."""
        return self.held_until is not None

    # --- steps

    def outcome(self, path: str) -> JsonObject | None:
        """Returns the recorded outcome of the step at this place, or None."""
        event = self.known.outcomes.get(path)
        if event is None or event.sealed is None:
            return None
        return self._sealer.open(event.sealed, f"run:{self.run.id}:{event.path}")

    async def record(self, path: str, outcome: Result | SpindleError) -> None:
        """Returns when the outcome would survive the death of this process. Raises CancelledError if the run
        is no longer this process's: what it did since is nobody's."""
        path = self.known.path(path)
        sealed = self._sealer.seal_often(written(outcome), f"run:{self.run.id}:{path}")
        self._unsaved.append(self._event("step", path, sealed))
        try:
            if not self._is_saved_at_once():
                await (self.save() if self.run.queue is None else self._save_or_lose())
        except StoreError as error:
            # The step has done its work. What could not be written goes with the next that can.
            self._note(f"a step of run {self.run.id} could not be recorded: {error.message}")
        except RunLostError:
            self.refuse_when_lost()

    def begun(self, path: str) -> Begun | None:
        """Returns the call at this place, if an earlier execution began it and it is not known how it
        ended."""
        event = self.known.begun.get(path)
        if event is None or event.sealed is None or self.is_program(path):
            return None
        content = self._sealer.open(event.sealed, f"run:{self.run.id}:{path}:begun")
        return Begun(event.at, content["process"], content["keyed"])

    def is_program(self, path: str) -> bool:
        """True if an earlier execution made steps during the call at this place. It is made again from its
        beginning, and each of its steps is judged by itself."""
        steps = self.known.steps
        below = bisect.bisect_left(steps, f"{path}/")
        return below < len(steps) and steps[below].startswith(f"{path}/")

    async def begin(self, path: str, *, keyed: bool) -> None:
        """Returns when it would survive the death of this process that the call at this place is being sent.
        Raises StoreError if it cannot be written, and CancelledError if the run is lost: do not send it."""
        content = {"process": f"{HOST}, process {os.getpid()}", "keyed": keyed}
        sealed = self._sealer.seal_often(content, f"run:{self.run.id}:{path}:begun")
        event = self._event("begun", path, sealed)
        self._unsaved.append(event)
        try:
            if not self._is_saved_at_once():
                await (self._save_patiently() if self.run.queue is None else self._save_or_lose())
        except BaseException as error:
            self._unsaved = [other for other in self._unsaved if other is not event]
            if isinstance(error, RunLostError):
                self.refuse_when_lost()
            if isinstance(error, StoreError):
                raise _not_noted(error) from error
            raise
        # Who stood still while it was written may have lost the run since.
        await self.check_lease()

    async def _save_patiently(self) -> None:
        """Tries again for a moment: what is not noted is not done."""
        for wait in WAITS:
            try:
                return await self.save()
            except StoreError:
                await asyncio.sleep(wait)
        return await self.save()

    async def _save_or_lose(self) -> None:
        """Tries while it has the lease: in a worker, no step is made after one that is not on record."""
        while True:
            try:
                return await self.save()
            except StoreError:
                if self._leases.clock() >= (self.held_until or 0.0):
                    self.lose()
                    raise self.lost() from None
                await asyncio.sleep(WAITS[0])

    def stopped(self, path: str) -> None:
        """Notes, with the next `save`, that the call at this place asked somebody: it is in no doubt."""
        self.add_event(self._event("stopped", path, None))

    async def save(self, run: Run | None = None, pauses: Sequence[Pause] = ()) -> None:
        """Writes what is not written yet; with `run`, also how the run stands now. Raises RunLostError if
        another process took it over."""
        if run is not None:
            async with self._saving:
                await self._write(run, pauses)
            return
        if self._is_saved_at_once():
            return
        # All who come until the next write begins share it: parallel steps do not queue for the store.
        if self._next_write is None:
            self._next_write = asyncio.create_task(self._write_for_all(), name="record of a run")
            self._next_write.add_done_callback(_heard)
        await asyncio.shield(self._next_write)

    def _is_saved_at_once(self) -> bool:
        """Writes what is not written yet, if only one step is being made and the store need not wait."""
        if not self.is_stored or len(self.tasks) > 1 or self._next_write is not None or self._saving.locked():
            return False
        saved = self._store.save_events_at_once(self.run, self._unsaved) if self._unsaved else True
        if saved is None:
            return False
        self._unsaved = []
        if not saved:
            self.lose()
            raise self.lost()
        return True

    async def _write_for_all(self) -> None:
        async with self._saving:
            self._next_write = None
            if self._unsaved or not self.is_stored:
                await self._write(None)

    async def _write(self, run: Run | None, pauses: Sequence[Pause] = ()) -> None:
        events, self._unsaved = self._unsaved, []
        try:
            if not self.is_stored:
                saved = await self._save_first(run or self.run, events, pauses)
            elif run is None:
                saved = await self._store.save_events(self.run, events)
            else:
                # A caller that gives up now must not leave the run without an end.
                saved = await _to_its_end(self._store.save_run(run, events, pauses))
        except BaseException:
            self._unsaved = [*events, *self._unsaved]
            raise
        if not saved:
            self.lose()
            raise self.lost()

    async def _save_first(self, run: Run, events: Sequence[RunEvent], pauses: Sequence[Pause]) -> bool:
        sealed = self._sealer.seal(self.given, f"run:{run.id}:started")
        started = RunEvent(run.id, "started", run.created_at, sealed=sealed)
        began = self._leases.clock()
        saved = await _to_its_end(self._store.save_run(run, [started, *events], pauses))
        self.held_until = began + self._leases.seconds
        return saved

    def note(self, path: str, data: JsonObject) -> bool:
        """Adds a note, to be written with the next `save`. One that is lost with this process is made
        again when the run passes the same place."""
        if path in self.known.noted or self.has_ended:
            return False
        self.known.noted.add(path)
        sealed = self._sealer.seal_often(data, f"run:{self.run.id}:{path}")
        self.add_event(self._event("note", path, sealed))
        return True

    def _event(self, kind: EventKind, path: str, sealed: bytes | None) -> RunEvent:
        # Ids that follow each other lie together in the store's index, so that fewer of its pages change.
        id = f"{self._stem}{next(self._numbers):08x}"
        return RunEvent(self.run.id, kind, self._now(), path, sealed, id)

    def add_event(self, event: RunEvent) -> None:
        """Adds an event, to be written with the next `save`."""
        self._unsaved.append(event)

    # --- losing it

    async def check_lease(self) -> None:
        """Raises CancelledError if another process took the run over while this one slept."""
        if self.held_until is not None and self._leases.clock() >= self.held_until:
            await self._leases.renew([self])
        self.refuse_when_lost()

    def refuse_when_lost(self) -> None:
        """Raises CancelledError, which no program takes for an answer, once the run is another process's."""
        if self.is_lost:
            raise asyncio.CancelledError(self.lost().message)

    def lose(self) -> None:
        """Ends all work on the run, because another process took it over."""
        if not self.is_lost:
            self.is_lost = True
            here = asyncio.current_task()
            for task in (*self.tasks, self.work):
                if task is not None and task is not here:
                    task.cancel()

    def lost(self) -> RunLostError:
        """Returns the error for whoever waits for the run here."""
        return RunLostError(
            f"another process took over run {self.run.id} while this one stood still",
            remedy=Remedy("resume_lost", self.run.id),
        )

    def step_ended(self, ended: asyncio.Future[Result], task: asyncio.Task[None]) -> None:
        """Forgets the task of a step that has ended, and tells who waits for it if it failed."""
        self.tasks.discard(task)
        # Whoever made the call may have been given up; it is recorded all the same.
        error = None if task.cancelled() else task.exception()
        if error is None:
            ended.cancel()  # which changes nothing where the step has told its result
        elif not ended.done():
            ended.set_exception(error)
            ended.exception()  # who waits may be given up before the error gets there

    # --- stopping

    def suspend(self) -> None:
        """Ends the work and lets no new step begin, so that the run rests although it asks for nothing."""
        if self.work is not None:
            self.work.cancel()
        self.is_suspended = True
        self.stops.whole(InputRequired(f"run {self.run.id} was suspended"))

    def withdraw(self, branch: str) -> None:
        """Forgets what is asked in a branch that nobody needs any more."""
        inside = below(branch)
        self.asked = {path: pause for path, pause in self.asked.items() if not path.startswith(inside)}
        gone = [self._waiting.pop(path) for path in list(self._waiting) if path.startswith(inside)]
        self.replaced += [pause for pause in gone if pause.token in self._stored]
        self.stops.forget(branch)

    @property
    def has_paused(self) -> bool:
        """True if something was asked in it, so that a place may have an answer."""
        return bool(self._answered or self._waiting)

    def reply(self, path: str) -> Reply | None:
        """Returns the answer to the question that was asked at this place, or None."""
        pause = self._answered.get(path)
        if pause is None or pause.answer is None:
            return None
        given = self._sealer.open(pause.answer, f"answer:{pause.token}")
        return Reply(given.get("answer"), given.get("refused"), self._content(pause)["state"])

    def asked_before(self, path: str) -> Interruption | None:
        """Returns the source's unanswered question at this place, so that the source need not ask again."""
        pause = self._waiting.get(path)
        if pause is None or self._has_expired(pause):
            return None
        content = self._content(pause)
        return InputRequired(
            content["message"], source=pause.source, tool=pause.tool, expires_at=pause.expires_at,
            details=content["details"], state=content["state"],
        )  # fmt: skip

    def ask(
        self, question: Interruption, path: str, principal: Principal | None, branches: Branches = ()
    ) -> Interruption:
        """Notes that this is asked here, under the token that it had when it was asked before."""
        content = {
            "message": question.message,
            "details": question.details,
            "state": question.state,
            "expires_at": question.expires_at,
        }
        pause = self._waiting.get(path)
        if pause is not None and self._is_stale(pause, question):
            self.replaced.append(pause)
            pause = None
        if pause is None:
            token = token_of(question)
            pause = Pause(
                token, self.run.id, path, question.kind, said_to_all(question),
                principal or self.run.principal, self._now(), question.source, question.tool,
                ends_at(question, self._now()),
                sealed=self._sealer.seal(content, f"pause:{token}"),
            )  # fmt: skip
            self._waiting[path] = pause
        self.asked[path] = pause
        self.stops.add(path, question, branches)
        return question

    def is_over(self, question: Interruption, path: str) -> bool:
        """True for a wait at this place that has ended by its time."""
        return is_over(question, self._waiting.get(path), self._now())

    def _is_stale(self, pause: Pause, question: Interruption) -> bool:
        details = from_json(to_json(question.details, default=str))
        return self._has_expired(pause) or self._content(pause)["details"] != details

    def _has_expired(self, pause: Pause) -> bool:
        return pause.expires_at is not None and pause.expires_at <= self._now()

    def _content(self, pause: Pause) -> JsonObject:
        return open_content(self._sealer, pause)


def _not_noted(error: StoreError) -> StoreError:
    return StoreError(
        f"the call was not made, since that could not be noted: {error.message}",
        hint=error.hint, sent=False, details=error.details,
    )  # fmt: skip


def closed(run: Run, status: Any, now: float, error: JsonObject | None = None) -> Run:
    """Returns the run as it stands when nobody executes it any more."""
    return replace(run, status=status, updated_at=now, error=error, lease=None)


def _heard(write: asyncio.Task[None]) -> None:
    """Whoever waited for it may have been given up."""
    if not write.cancelled():
        write.exception()


async def _to_its_end(work: Awaitable[T]) -> T:
    """Waits for work that is not given up when its caller is, only later."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            await asyncio.wait([task])
        raise
