"""Runs that were submitted to a queue: handed to the engine turn by turn, and executed by workers.

The store has each run as it stands before the engine hears of it. So what was handed over and lost is found
(`adrift`), and what is handed over twice is one turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from spindle.domain import trail
from spindle.domain.call import new_id
from spindle.domain.run import DEFAULT_QUEUE, PART, RECORD, Run, RunEvent
from spindle.errors import (
    CallTimeoutError,
    CancelledCallError,
    ClientError,
    ConfigurationError,
    RunLostError,
    ServerError,
    SpindleError,
)
from spindle.ports.engine import RunTurn, turn_id
from spindle.ports.store import LEASE
from spindle.runs.journal import closed
from spindle.runs.outcomes import Paused
from spindle.runs.parts import OPEN, BatchParts, RunParts, ids_of, orphaned, spreading
from spindle.runs.placing import Placing
from spindle.runs.record import kept
from spindle.runs.shares import QueueShares

if TYPE_CHECKING:
    from spindle.auth.encryption import Sealer
    from spindle.calls.caller import CallOptions, Clock
    from spindle.domain.engine import QueueConfig
    from spindle.domain.json_schema import JsonObject
    from spindle.ports.engine import Engine
    from spindle.ports.source import Note
    from spindle.ports.store import RunStore
    from spindle.runs.executions import Executions
    from spindle.runs.journal import RunJournal
    from spindle.runs.outcomes import Outcome

FIRST: Final = 2
"""The generation of a submitted run in its first execution."""
MAX_TAKEOVERS: Final = 5
"""The number of times that a run is taken up without coming further, before it counts as deadly."""
HANDED_OVER: Final = 10.0
"""Seconds in which a stored run is certainly handed over, unless its process died meanwhile."""
WORKER_LEASE: Final = 10.0
"""Seconds without a sign of life after which a worker has lost its runs."""
LEFT: Final = 2.0
"""Seconds after which a run is offered to workers again that one did not understand."""
ADRIFT_AT_ONCE: Final = 200
MAX_BACKOFF: Final = 3600.0


class ContinuesRuns(Protocol):
    """The part of a Runner that is needed here."""

    async def go_on(self, journal: RunJournal) -> Outcome: ...
    async def resume(self, token: str) -> Outcome: ...


class Submissions:
    """The submitted runs of a workspace."""

    def __init__(
        self,
        executions: Executions,
        store: RunStore,
        sealer: Sealer,
        clock: Clock,
        runner: ContinuesRuns,
        note: Note,
        engine: Callable[[], Engine] | None,
    ) -> None:
        self._executions = executions
        self._store = store
        self._sealer = sealer
        self._clock = clock
        self._runner = runner
        self._parts = BatchParts(self, runner.resume, store, sealer, note)
        self._note = note
        self._open_engine = engine
        self._engine: Engine | None = None
        self.takes_turns = True
        """False when this process is about to end."""
        self._has_left = False
        """True if it was said that runs are left to others."""
        self._shares = QueueShares(store, clock.now, lambda: self.engine, self._hand_over, note)
        self._turns: set[asyncio.Task[Any]] = set()
        """The turns that are executed here."""

    @property
    def engine(self) -> Engine:
        """The engine of the workspace. Raises ConfigurationError if it cannot be opened."""
        if self._engine is None:
            if self._open_engine is None:
                raise ConfigurationError("runs cannot be submitted: there is no engine")
            self._engine = self._open_engine()
        return self._engine

    async def close(self) -> None:
        """Closes the engine, if it was opened."""
        if self._engine is not None:
            await self._engine.close()

    # --- submitting

    async def submit(
        self, kind: str, name: str, given: JsonObject, options: CallOptions, placing: Placing
    ) -> Run:
        """Stores a run and hands it to the engine. Returns it as it stands, when it would survive the death
        of this process. Raises BusyError if its queue is full."""
        return (await self.submit_once(kind, name, given, options, placing))[0]

    async def submit_once(
        self, kind: str, name: str, given: JsonObject, options: CallOptions, placing: Placing
    ) -> tuple[Run, bool]:
        """Does the same, and returns beside the run if it is new: False where its key was used before."""
        id = placing.id_for(options.principal.id)
        run, is_new = await self._store.run(id) if placing.dedup is not None else None, False
        if run is None:
            run, started = await self.prepared(kind, name, given, options, placing, id)
            is_new = await self._store.save_run(run, [started])
            if not is_new:
                run = await self._store.run(id) or run  # of the first with this key
        await self.hand_to_engine(run)
        return run, is_new

    async def prepared(
        self, kind: str, name: str, given: JsonObject, options: CallOptions, placing: Placing, id: str
    ) -> tuple[Run, RunEvent]:
        """Returns a run with this id and its first event, to be stored and then handed to the engine. Raises
        BusyError if its queue is full."""
        queue = self.engine.queue(placing.queue)
        await self.engine.check()
        if kind != PART:
            await self._shares.refuse_full(placing.queue, queue, options.principal.id)
        now = self._clock.now()
        run = Run(
            name, kind, options.principal, "queued", now, now, id=id, queue=placing.queue,
            turn=_next_turn(0, queue), priority=placing.priority, not_before=placing.at,
        )  # fmt: skip
        sealed = self._sealer.seal({**kept(given, options), "record": RECORD}, f"run:{id}:started")
        return run, RunEvent(id, "started", now, sealed=sealed)

    async def hand_to_engine(self, run: Run) -> None:
        """Hands a stored run that waits to the engine, as soon as its principal's share of the queue lets it
        begin. Where that fails, a worker finds it later."""
        if run.status != "queued":
            return
        if run.turn > 0:
            await self._hand_over(run)
        elif run.queue is not None:
            await self._shares.admit(run.queue, run.principal.id)

    async def submit_call(
        self, tool: str, arguments: JsonObject, options: CallOptions, placing: Placing
    ) -> Run:
        """Submits a call of a tool. Raises at once what is wrong with it."""
        name = await self._executions.checked(tool, arguments, options)
        given = {"tool": name, "arguments": arguments, trail.FIELD: trail.written(trail.current())}
        return await self.submit("call", name, given, options, placing)

    async def _hand_over(self, run: Run) -> None:
        assert run.queue is not None
        turn = RunTurn(run.id, run.turn, run.queue, run.priority, run.not_before)
        try:
            await self.engine.submit(turn)
        except SpindleError as error:
            self._note(f"run {run.id} is stored, and will be handed over by a worker: {error.message}")

    async def hand_over(self, journal: RunJournal, at: float | None = None) -> bool:
        """Queues the next turn of a submitted run that this process holds. False: it was not submitted, or
        there are no queues any more, so it goes on here."""
        run = journal.run
        if run.queue is None or run.queue not in self.engine.queues:
            return False
        turn = _next_turn(run.turn, self.engine.queue(run.queue))
        queued = replace(closed(run, "queued", self._clock.now()), turn=turn, not_before=at)
        await journal.save(queued)
        await self.hand_to_engine(queued)
        return True

    async def cancel(self, run: Run, why: str) -> None:
        """Ends a run that does not execute in this process, wherever it is. One that comes to its own end
        meanwhile stays as it is."""
        found: Run | None = run
        # Whoever executes it may take it, pause it or put it back between a look and what is done then.
        while found is not None and found.status in OPEN and not await self._cancelled(found, why):
            found = await self._store.run(run.id)
        await self._parts.cancel(ids_of(run.id), why)

    async def _cancelled(self, run: Run, why: str) -> bool:
        """Ends a run that stands as it was read. False: it does so no longer."""
        error = CancelledCallError(why)
        if run.status == "running":
            now = self._clock.now()
            ended = closed(run, "cancelled", now, {"category": error.category, "message": why})
            return await self._store.save_run(ended, [RunEvent(run.id, "ended", now)])
        if run.status == "paused":
            return await self._executions.give_up(run.id, why)
        if not await self._take_turn(run.id, run.turn) or not await self._executions.conclude(run.id, error):
            return False
        await self.engine.cancel(turn_id(run.id, run.turn))
        await self._shares.freed(run)
        return True

    async def retry(self, id: str, at: float | None = None) -> Outcome | None:
        """Lets a run go on that failed or was cancelled: steps that are done are not made again, those that
        failed are. Returns its outcome, or None if a worker will execute it."""
        seconds, now = self._executions.leases.seconds, self._clock.now()
        if not await self._store.reopen(id, self._executions.owner, seconds, now):
            run = await self._store.run(id)
            status = run.status if run is not None else "not there"
            raise ClientError(
                f"run {id} is {status}", hint="only one that failed or was cancelled is retried"
            )
        journal = await self._executions.load(id)
        journal.add_event(RunEvent(id, "retried", now))
        if await self.hand_over(journal, at):
            return None
        await journal.save()
        journal = await self._executions.load(id)
        journal.add_event(RunEvent(id, "resumed", now))
        return await self._runner.go_on(journal)

    # --- executing

    def begin(self) -> None:
        """Prepares this process to execute turns: others learn soon that it stands still, and it learns soon
        that a run was cancelled."""
        self._executions.leases.seconds = WORKER_LEASE

    async def execute(self, id: str, number: int) -> None:
        """Executes a turn of a run, in a worker. What becomes of the run is in the store."""
        earlier = self._executions.running.get(id)
        if earlier is not None:
            # This process was taken for dead, and is given its own run once more.
            self._executions.let_go(id)
            await asyncio.wait([earlier])
        if not self.takes_turns:
            await asyncio.get_running_loop().create_future()  # others get it when this process has ended
        task = asyncio.current_task()
        assert task is not None
        self._turns.add(task)
        try:
            began = self._executions.leases.clock()
            run = await self._take_turn(id, number)
            if run is not None:
                journal = await self._executions.load(id, run, began)
                await self._execute(journal)
                if journal.run.kind == PART:
                    await self._parts.ended(journal.given)
                await self._shares.freed(journal.run)
        finally:
            self._turns.discard(task)

    async def _executed(self, journal: RunJournal) -> Outcome:
        token = spreading.set(RunParts(self._parts, journal))
        try:
            return await self._runner.go_on(journal)
        finally:
            spreading.reset(token)

    async def _execute(self, journal: RunJournal) -> None:
        id = journal.run.id
        if not self._understands(journal):
            await self.hand_over(journal, self._clock.now() + LEFT)
            return
        if journal.run.kind == PART and await self._parts.is_orphan(journal.given):
            await self._executions.conclude(id, orphaned())
            return
        known = journal.known
        if known.takeovers >= MAX_TAKEOVERS:
            await self._executions.conclude(id, _deadly(known.takeovers))
            return
        resumed = RunEvent(id, "resumed", self._clock.now())
        journal.add_event(resumed)
        if journal.run.generation > FIRST:
            if not known.takeovers and not known.came_further:
                journal.add_event(replace(resumed, id=new_id()))  # of the first execution, which left none
            # It may be deadly, so it is on record before it goes on. Most runs need no second execution.
            await journal.save()
        queue = self.engine.queue(journal.run.queue or DEFAULT_QUEUE)
        try:
            async with asyncio.timeout(queue.timeout):
                outcome = await self._executed(journal)
        except TimeoutError:
            await self._fail(id, CallTimeoutError(f"the run did not finish within {queue.timeout:g} s"))
        except RunLostError:
            pass  # whoever has it now says how it ends
        except SpindleError as error:
            if error.retryable and journal.known.retries < queue.retries:
                wait = min(queue.backoff * 2**journal.known.retries, MAX_BACKOFF)
                await self.retry(id, self._clock.now() + wait)
        else:
            if isinstance(outcome, Paused) and not outcome.pauses and not self.takes_turns:
                await self._leave(id)

    def _understands(self, journal: RunJournal) -> bool:
        """False for a run of a newer Spindle, whose workers will take it."""
        record = journal.given.get("record", 1)
        if record <= RECORD and self._executions.knows(journal.run.kind):
            return True
        if not self._has_left:
            self._has_left = True
            self._note(
                f"run {journal.run.id} was begun by a newer Spindle (its record is of version {record}, this"
                f" one knows {RECORD}): such runs are left to other workers; upgrade this one"
            )
        return False

    @property
    def is_busy(self) -> bool:
        """True while turns are executed in this process."""
        return bool(self._turns)

    async def _take_turn(self, id: str, number: int) -> Run | None:
        seconds, now = self._executions.leases.seconds, self._clock.now()
        return await self._store.take_turn(id, number, self._executions.owner, seconds, now)

    async def _fail(self, id: str, why: SpindleError) -> None:
        seconds, now = self._executions.leases.seconds, self._clock.now()
        if await self._store.reopen(id, self._executions.owner, seconds, now):
            await self._executions.conclude(id, why)

    async def _leave(self, id: str) -> None:
        """Queues a run that has come to rest because this worker ends."""
        seconds, now = self._executions.leases.seconds, self._clock.now()
        if await self._store.take_run(id, self._executions.owner, seconds, now):
            await self.hand_over(await self._executions.load(id))

    async def stop(self, patience: float) -> None:
        """Lets the runs that execute here come to rest, and gives them to other workers. Steps in flight have
        so many seconds to end; what is not done then is judged by whoever takes the run."""
        self.takes_turns = False
        for id in self._executions.running:
            self._executions.suspend(id)
        if self._turns:
            await asyncio.wait(self._turns, timeout=patience)
        for id in tuple(self._executions.running):
            self._executions.let_go(id)

    # --- watching over

    async def recover(self) -> int:
        """Queues runs that nobody has: whose worker stands still, and those that were stored and never handed
        over. Returns how many there were. Those that were held back begin if they may by now."""
        await self._shares.admit_all()
        await self._parts.look()
        found = await self._store.adrift(self._clock.now() - HANDED_OVER, LEASE, ADRIFT_AT_ONCE)
        waiting = {turn_id(run.id, run.turn) for run in found if run.status == "queued"}
        known = await self.engine.unfinished(waiting)
        count = 0
        for run in found:
            if turn_id(run.id, run.turn) in known or run.id in self._executions.running:
                continue
            try:
                count += await self._queue_again(run)
            except RunLostError:
                pass  # another was faster
            except SpindleError as error:  # such as that its key is not here; the others are found anyway
                self._note(f"run {run.id} could not be queued again: {error.message}")
        return count

    async def _queue_again(self, run: Run) -> bool:
        seconds, now = self._executions.leases.seconds, self._clock.now()
        if run.status == "running":
            taken = await self._store.take_run(run.id, self._executions.owner, seconds, now)
        else:
            taken = await self._take_turn(run.id, run.turn) is not None
        return taken and await self.hand_over(await self._executions.load(run.id))


def _next_turn(last: int, queue: QueueConfig) -> int:
    """Returns the number of the next turn of a run; where principals have shares, that of the last one, as a
    run that is held back has it."""
    return abs(last) + 1 if queue.places_of_one is None else -abs(last)


def _deadly(times: int) -> ServerError:
    return ServerError(
        f"the run was taken up {times} times without coming further: its workers died or stood still",
        hint="see which of its steps ends the process; `spindle runs retry` lets it go on",
    )
