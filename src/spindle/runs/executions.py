"""Executing runs in this process, until they are done or wait for a person."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from spindle.calls.host import CallHost
from spindle.calls.journal import current_journal
from spindle.domain import trail
from spindle.domain.call import Result, new_id
from spindle.domain.run import Pause, Run, RunEvent
from spindle.errors import (
    CancelledCallError,
    Interruption,
    NotFoundError,
    RunLostError,
    SpindleError,
    StoreError,
)
from spindle.runs.alone import LonePlace
from spindle.runs.journal import RunJournal, closed
from spindle.runs.leases import RunLeases
from spindle.runs.outcomes import Finished, Outcome, Paused, opened, written
from spindle.runs.places import RunPlace
from spindle.runs.record import kept

if TYPE_CHECKING:
    from spindle.auth.encryption import Sealer
    from spindle.calls.caller import Caller, CallOptions, Clock
    from spindle.domain.json_schema import JsonObject
    from spindle.ports.source import Note
    from spindle.ports.store import RunStore


class Work(Protocol):
    """The work of one kind of run, done from its beginning at each execution: at its start and after each
    pause."""

    async def __call__(self, given: JsonObject, host: CallHost, options: CallOptions) -> Result: ...


@dataclass(frozen=True, slots=True)
class _Ended:
    """The outcome of an execution that did not pause."""

    outcome: Result | SpindleError


class Executions:
    """The runs that execute in this process."""

    def __init__(
        self,
        caller: Caller,
        store: RunStore,
        sealer: Sealer,
        note: Note,
        clock: Clock,
        works: Mapping[str, Work],
    ) -> None:
        self.owner = new_id()
        """Of the runs that execute here, as others see it."""
        self.running: dict[str, asyncio.Future[Outcome]] = {}
        """By run, the outcome that it will have."""
        self._caller = caller
        self._store = store
        self._sealer = sealer
        self._note = note
        self._clock = clock
        self._works = works
        self.leases = RunLeases(store, clock.since_boot, note)
        self._working: dict[str, RunJournal] = {}
        """By run, the journal of its execution."""

    async def close(self) -> None:
        """Stops renewing leases."""
        await self.leases.close()

    def knows(self, kind: str) -> bool:
        """True if runs of this kind can be executed."""
        return kind == "call" or kind in self._works

    def suspend(self, run: str) -> bool:
        """Lets a run come to rest, as `Runner.suspend` says. A call alone cannot: it is one step."""
        journal = self._working.get(run)
        if journal is None or journal.run.kind == "call":
            return False
        journal.suspend()
        return True

    def let_go(self, run: str) -> None:
        """Ends the work on a run, as `Runner.let_go` says."""
        if run in self._working:
            self._working[run].lose()

    def journal(self, run: Run, given: JsonObject, **known: Any) -> RunJournal:
        """Returns the journal of a run, with what is already known of it."""
        return RunJournal(
            run, given, self._store, self._sealer, self._clock.now, self.leases, self._note, **known
        )

    async def load(self, id: str, read: Run | None = None, began: float | None = None) -> RunJournal:
        """Returns the journal of a run that this process has taken, as it is stored: one that was `read` at
        this time by the clock of the leases, or now. Raises StoreError where its beginning is missing."""
        began = self.leases.clock() if began is None else began
        run = read or await self._store.run(id)
        if run is None:
            raise NotFoundError(f"there is no run {id!r}")
        history = await self._store.history(run.id)
        sealed = {event.kind: event.sealed for event in reversed(history)}
        pauses = await self._store.pauses(run=run.id, waiting=False) if "paused" in sealed else ()
        started = sealed.get("started")
        if started is None:
            raise StoreError(f"what run {run.id} was started with is not in the store")
        given = self._sealer.open(started, f"run:{run.id}:started")
        held = began + (run.lease or 0.0)
        journal = self.journal(run, given, history=history, pauses=pauses, held_until=held)
        if run.owner != self.owner or run.status != "running":
            raise journal.lost()
        return journal

    async def rest(self, id: str) -> Outcome | None:
        """Waits for the execution of a run here. None: it paused, and this process has it again."""
        outcome = await asyncio.shield(self.running[id])
        run = await self._store.run(id) if isinstance(outcome, Paused) else None
        is_taken = run is not None and run.status == "running" and run.owner == self.owner
        return None if is_taken else outcome

    async def give_up(self, id: str, why: str) -> bool:
        """Cancels a run that nobody executes: its pauses can no longer be answered. False: one has it."""
        taken = await self._store.take_run(id, self.owner, self.leases.seconds, self._clock.now())
        return taken and await self.conclude(id, CancelledCallError(why))

    async def conclude(self, id: str, why: SpindleError) -> bool:
        """Ends a run that this process has taken, without executing it. False: somebody took it meanwhile."""
        status, outcome = ("cancelled", None) if isinstance(why, CancelledCallError) else ("failed", why)
        with contextlib.suppress(RunLostError):
            journal = await self.load(id)
            journal.has_ended = True
            await self._end(journal, status, outcome, {"category": why.category, "message": why.message})
            return True
        return False

    async def checked(self, tool: str, arguments: JsonObject, options: CallOptions) -> str:
        """Returns the name of the tool that a call would reach. Raises what is wrong with the call."""
        found = await self._caller.find(tool, options.principal)
        await self._caller.check(found.name, arguments)
        return found.name

    async def call(self, tool: str, arguments: JsonObject, options: CallOptions) -> Outcome:
        """Makes a call that becomes a run if it needs one."""
        alone = LonePlace(self._begun, tool, arguments, options, asyncio.get_running_loop())
        token = current_journal.set(alone)
        end: Result | BaseException
        try:
            try:
                end = await self._caller.make(tool, arguments, options, alone)
            except BaseException as error:
                alone.raise_end(error)
                raise
            finally:
                current_journal.reset(token)
            if alone.journal is None:
                return Finished(alone.run_id, end)
            alone.raise_swallowed()
        except BaseException as error:
            if alone.journal is None:
                raise
            end = error
        return await self.execute(alone.journal, options, first=end)

    def _begun(
        self,
        loop: asyncio.AbstractEventLoop,
        tool: str,
        arguments: JsonObject,
        options: CallOptions,
        run_id: str,
    ) -> RunJournal:
        """Returns the journal of a call that has just become a run, perhaps by its tool, in a thread."""
        run = self.new_run("call", tool, options, run_id)
        journal = self.journal(run, kept({"tool": tool, "arguments": arguments}, options))
        self.running[run_id] = loop.create_future()
        if asyncio._get_running_loop() is loop:  # pyright: ignore[reportPrivateUsage]
            self.leases.keep(journal)
        else:
            loop.call_soon_threadsafe(self.leases.keep, journal)
        return journal

    def new_run(self, kind: str, name: str, options: CallOptions, run_id: str) -> Run:
        """Returns a run that begins now, in this process."""
        now, lease = self._clock.now(), self.leases.seconds
        return Run(
            name, kind, options.principal, "running", now, now, owner=self.owner, lease=lease, id=run_id
        )

    async def execute(
        self,
        journal: RunJournal,
        options: CallOptions,
        work: Work | None = None,
        first: Result | BaseException | None = None,
    ) -> Outcome:
        """Executes the run until it is done or paused. `work` stands in for the work of the run's kind.
        `first`: it was executed once already, with this end."""
        run_id = journal.run.id
        ended = self.running.setdefault(run_id, asyncio.get_running_loop().create_future())
        try:
            outcome = await self._until_it_rests(journal, options, work, first)
            ended.set_result(outcome)
            return outcome
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError):
                ended.cancel()
            else:
                ended.set_exception(error)
                ended.exception()  # nobody needs to have waited
            raise
        finally:
            del self.running[run_id]
            self._working.pop(run_id, None)

    async def _until_it_rests(
        self,
        journal: RunJournal,
        options: CallOptions,
        work: Work | None,
        first: Result | BaseException | None,
    ) -> Outcome:
        """Execute until the run is done or really waits: an answer may arrive while it executes."""
        while True:
            self._working[journal.run.id] = journal
            with self.leases.kept(journal):
                if journal.run.kind != "call" and not journal.is_stored:
                    await self._save_started(journal)
                ended = await self._once(journal, options, work, first)
                if ended is not None:
                    return Finished(journal.run.id, await self._finished(journal, ended.outcome))
                if not await self._was_answered(journal):
                    await self._save_paused(journal)
            if journal.run.status == "paused":
                # Whoever answered until now was told that the run goes on by itself.
                now = self._clock.now()
                if not await self._was_answered(journal) or not await self._store.take_run(
                    journal.run.id, self.owner, self.leases.seconds, now
                ):
                    return Paused(
                        journal.run.id, tuple(opened(self._sealer, pause) for pause in journal.asked.values())
                    )
            journal, first = await self.load(journal.run.id), None

    async def _once(
        self,
        journal: RunJournal,
        options: CallOptions,
        work: Work | None,
        done: Result | BaseException | None,
    ) -> _Ended | None:
        """Do the run's work, unless it was `done`. None: it pauses."""
        outcome = None
        token = current_journal.set(RunPlace(journal))
        try:
            outcome = await self._work(journal, options, work) if done is None else _again(done)
        except SpindleError as error:
            outcome = error
        except Interruption:
            pass
        except asyncio.CancelledError:
            if not _was_ended_alone(journal):
                await self._cancelled(journal)
                raise
        finally:
            current_journal.reset(token)
        try:
            while journal.tasks:
                await asyncio.wait(journal.tasks)
        except asyncio.CancelledError:
            await self._cancelled(journal)
            raise
        if journal.is_lost:
            raise journal.lost()
        if journal.asked or (journal.is_suspended and not isinstance(outcome, Result)):
            return None
        journal.has_ended = True
        assert outcome is not None
        return _Ended(outcome)

    async def _save_started(self, journal: RunJournal) -> None:
        """Stores a run of several steps at once, so that it can be found. A call alone need not be."""
        try:
            await journal.save()
        except StoreError as error:
            self._note(f"run {journal.run.id} could not be recorded: {error.message}")

    async def _work(self, journal: RunJournal, options: CallOptions, own: Work | None) -> Result:
        given, kind = journal.given, journal.run.kind
        if kind == "call":
            arguments = await self._read(journal, options) if "words" in given else given["arguments"]
            with trail.on_kept(given):
                return await self._caller.call(given["tool"], arguments, options)
        work = own or self._works[kind]
        steps = RunPlace(journal).step(
            kind,
            {},
            options.principal,
            lambda place: work(given, CallHost(self._caller, options.principal, place), options),
        )
        # A task of its own can be ended without its caller's.
        journal.work = asyncio.ensure_future(steps)
        try:
            return await journal.work
        finally:
            journal.work = None

    async def _read(self, journal: RunJournal, options: CallOptions) -> JsonObject:
        """Returns the arguments of a call that was typed before its tool was known."""
        from spindle.calls.words import later_arguments

        given = journal.given

        async def read(_: object) -> JsonObject:
            tool = await self._caller.find(given["tool"], options.principal)
            return later_arguments(tool.name, tool.input_schema, given["words"], given["options"])

        return await RunPlace(journal, principal=options.principal).remember("words", given["words"], read)

    async def _finished(self, journal: RunJournal, outcome: Result | SpindleError) -> Result:
        if journal.is_stored:
            failed = isinstance(outcome, SpindleError)
            error = {"category": outcome.category, "message": outcome.message} if failed else None
            await self._end(journal, "failed" if failed else "done", outcome, error)
        if isinstance(outcome, SpindleError):
            raise outcome
        return outcome

    async def _cancelled(self, journal: RunJournal) -> None:
        for task in journal.tasks:
            task.cancel()
        while journal.tasks:
            await asyncio.wait(journal.tasks)
        journal.has_ended = True
        if journal.is_stored and not journal.is_lost:
            with contextlib.suppress(RunLostError):  # another process says how it ends
                await self._end(journal, "cancelled", None, None)

    async def _end(
        self,
        journal: RunJournal,
        status: str,
        outcome: Result | SpindleError | None,
        error: JsonObject | None,
    ) -> None:
        run, now = journal.run, self._clock.now()
        sealed = None if outcome is None else self._sealer.seal(written(outcome), f"run:{run.id}:ended")
        try:
            asked = journal.has_paused or journal.replaced
            waiting = await self._store.pauses(run=run.id) if asked else ()
            journal.add_event(RunEvent(run.id, "ended", now, sealed=sealed))
            await journal.save(
                closed(run, status, now, error), [_no_longer_asked(pause) for pause in waiting]
            )
        except StoreError as problem:
            self._note(f"the end of run {run.id} could not be recorded: {problem.message}")

    async def _was_answered(self, journal: RunJournal) -> bool:
        if not journal.is_stored:
            return False
        tokens = {pause.token for pause in journal.asked.values()}
        stored = await self._store.pauses(run=journal.run.id, waiting=False)
        return any(pause.token in tokens and pause.state == "answered" for pause in stored)

    async def _save_paused(self, journal: RunJournal) -> None:
        now = self._clock.now()
        for pause in journal.asked.values():
            journal.add_event(RunEvent(journal.run.id, "paused", now, pause.path))
        journal.run = closed(journal.run, "paused", now)
        replaced = [_no_longer_asked(pause) for pause in journal.replaced]
        await journal.save(journal.run, [*journal.asked.values(), *replaced])


def _again(end: Result | BaseException) -> Result:
    if isinstance(end, BaseException):
        raise end
    return end


def _no_longer_asked(pause: Pause) -> Pause:
    """Returns the pause as it is stored so that a later answer is refused."""
    return replace(pause, state="answered")


def _was_ended_alone(journal: RunJournal) -> bool:
    """True if only the work was cancelled, not its caller."""
    task = asyncio.current_task()
    was_ended = journal.is_suspended or journal.is_lost
    return was_ended and not (task is not None and task.cancelling())
