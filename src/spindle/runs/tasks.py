"""Calls as tasks: runs that begin in the background and are asked after by their id, in any process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from spindle.calls.options import CallOptions
from spindle.domain import trail
from spindle.domain.bounded import BoundedMap
from spindle.domain.call import Result
from spindle.domain.json_schema import is_object
from spindle.domain.run import Run, RunStatus
from spindle.errors import (
    Interruption,
    NotFoundError,
    RateLimitedError,
    ServerError,
    SpindleError,
)
from spindle.runs.outcomes import Finished, Outcome, Paused
from spindle.runs.placing import Placing

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from spindle.calls.host import CallHost
    from spindle.domain.identity import Principal
    from spindle.domain.json_schema import JsonObject
    from spindle.ports.source import Note
    from spindle.ports.store import RunStore
    from spindle.runs.executions import Work
    from spindle.runs.outcomes import OpenPause
    from spindle.runs.submissions import Submissions

KIND = "task"
CONTINUES = "io.spindle/continues"
"""The key in the result of a task of the run that goes on in its place: that of a call which paused."""
LOOK_AFTER = 20.0
"""Seconds after which a task that executes elsewhere is looked after again, in case its process has died."""

MAX_LOOKED_AFTER = 10_000
OPEN: tuple[RunStatus, ...] = ("queued", "running", "paused")
CLOSING = 5.0
"""Seconds that work may take to end when its process does."""


async def work(given: JsonObject, host: CallHost, options: CallOptions) -> Result:
    """Executes a task, from its start or after a pause."""
    if given.get("is_begun"):
        # The call began before it was a task: whether it was done, only its process could have said.
        raise ServerError(
            f"the process that made this call of {given['tool']} ended before its answer came",
            hint="find out if it was done before you make it again",
        )
    with trail.on_kept(given):
        return await host.call(given["tool"], given["arguments"])


class RunsTasks(Protocol):
    """The part of a Runner that tasks need."""

    async def begin(
        self, kind: str, name: str, given: JsonObject, options: CallOptions, *, work: Work | None = None
    ) -> tuple[str, Coroutine[Any, Any, Outcome]]: ...
    async def accept(
        self, pause: OpenPause, answer: Any = None, *, refused: str | None = None, principal: Principal
    ) -> Coroutine[Any, Any, Outcome] | None: ...
    async def resume(self, token: str) -> Outcome: ...
    async def pauses(self, *, run: str | None = None) -> list[OpenPause]: ...
    async def outcome(self, run: Run) -> Result: ...
    async def cancel(self, run: Run, why: str) -> None: ...
    def executes(self, run: str) -> bool: ...
    def let_go(self, run: str) -> None: ...


@dataclass(frozen=True, slots=True)
class TaskState:
    """A task as it stands now."""

    id: str
    run: Run
    """The run that says how it stands."""
    created_at: float
    pauses: tuple[OpenPause, ...] = ()
    outcome: Result | SpindleError | None = None


class Tasks:
    """The tasks of a workspace. All that is told of them is in the store."""

    def __init__(self, runner: RunsTasks, submissions: Submissions, store: RunStore, note: Note) -> None:
        self.queue: Callable[[], str | None] = _no_queue
        """Says which queue tasks are submitted to; None if this process executes them."""
        self._runner = runner
        self._submissions = submissions
        self._store = store
        self._note = note
        self._jobs: dict[str, asyncio.Task[Any]] = {}
        """By run, the work that goes on in this process."""
        self._looked_after: BoundedMap[str, float] = BoundedMap(MAX_LOOKED_AFTER)

    async def start(self, tool: str, arguments: JsonObject, principal: Principal, most: int) -> TaskState:
        """Makes a call in the background, by a worker where tasks have a queue. Returns when the task would
        survive the death of this process. Raises RateLimitedError if `most` tasks of the principal are at
        work, or wait, or if the queue is full."""
        given: JsonObject = {"tool": tool, "arguments": arguments}
        queue = self.queue()
        if queue is None:
            return await self._begin(given, principal, most)
        await self._refuse_too_many(principal, most)
        given[trail.FIELD] = trail.written(trail.current())
        run = await self._submissions.submit(KIND, tool, given, CallOptions(principal), Placing(queue))
        return TaskState(run.id, run, run.created_at)

    async def adopt(
        self, tool: str, call: asyncio.Future[Outcome], principal: Principal, most: int
    ) -> TaskState:
        """Makes a task of a call that has begun, and takes long."""

        async def awaited(given: JsonObject, host: CallHost, options: CallOptions) -> Result:
            outcome = await call
            if isinstance(outcome, Paused):
                return Result.of_value({CONTINUES: outcome.run_id})
            if isinstance(outcome, Finished):
                return outcome.result
            raise ServerError(f"another process continues this call of {tool}")

        return await self._begin({"tool": tool, "is_begun": True}, principal, most, awaited)

    async def _begin(
        self, given: JsonObject, principal: Principal, most: int, own: Work | None = None
    ) -> TaskState:
        await self._refuse_too_many(principal, most)
        options = CallOptions(principal)
        task_id, doing = await self._runner.begin(KIND, given["tool"], given, options, work=own)
        self._go_on(task_id, doing)
        run = await self._owned(task_id, principal)
        return TaskState(task_id, run, run.created_at)

    async def _refuse_too_many(self, principal: Principal, most: int) -> None:
        held: set[str] = set()  # one that begins to wait meanwhile has both statuses
        for status in OPEN:
            found = await self._store.runs(limit=most, status=status, principal=principal.id, kind=KIND)
            held |= {run.id for run in found}
        if len(held) >= most:
            raise RateLimitedError(
                f"{principal.id!r} has {most} tasks that are at work or wait for an answer",
                hint="wait for one to end, answer it, or cancel it",
                retry_after=1.0,
            )

    def _go_on(self, run_id: str, doing: Coroutine[Any, Any, Any]) -> None:
        async def job() -> None:
            try:
                await doing
            except (SpindleError, Interruption):
                pass  # kept with the run, for whoever asks
            except Exception as error:  # noqa: BLE001 - a task's top: nobody else waits for it
                self._note(f"task {run_id} failed: {error!r}")

        task = self._jobs[run_id] = asyncio.create_task(job(), name=f"task {run_id}")
        task.add_done_callback(lambda _: self._forget(run_id, task))

    def _forget(self, run_id: str, task: asyncio.Task[Any]) -> None:
        if self._jobs.get(run_id) is task:
            del self._jobs[run_id]

    async def state(self, task_id: str, principal: Principal, *, looks_after: bool = True) -> TaskState:
        """The task as it stands; one whose process has died goes on here. Raises NotFoundError if the
        principal has none of this id."""
        begun = await self._owned(task_id, principal)
        run, outcome = begun, None
        if run.status in ("done", "failed"):
            outcome = await self._outcome(run)
            other = _continued_in(outcome)
            if other is not None:
                run, outcome = await self._store.run(other) or run, None
                outcome = await self._outcome(run) if run.status in ("done", "failed") else None
        pauses: tuple[OpenPause, ...] = ()
        if run.status in OPEN:
            pauses = tuple(await self._runner.pauses(run=run.id))
        if looks_after and run.status in OPEN and not pauses:
            self._look_after(run)
        return TaskState(task_id, run, begun.created_at, pauses, outcome)

    async def _owned(self, task_id: str, principal: Principal) -> Run:
        run = await self._store.run(task_id) if task_id else None
        # The store also finds runs by the beginning of their id.
        if run is None or run.id != task_id or run.kind != KIND or run.principal.id != principal.id:
            raise NotFoundError(f"there is no task {task_id!r}")
        return run

    async def _outcome(self, run: Run) -> Result | SpindleError:
        try:
            return await self._runner.outcome(run)
        except SpindleError as error:
            return error

    def _look_after(self, run: Run) -> None:
        """Goes on with a run whose process has died, or was told to stop. Workers look after their own."""
        if run.queue is not None or (run.status == "running" and (run.lease or 0.0) > 0):
            return
        loop = asyncio.get_running_loop()
        if run.id in self._jobs or loop.time() - self._looked_after.get(run.id, -LOOK_AFTER) < LOOK_AFTER:
            return
        self._looked_after[run.id] = loop.time()
        self._go_on(run.id, self._runner.resume(run.id))

    async def answer(
        self, state: TaskState, pause: OpenPause, value: Any, refused: str | None, principal: Principal
    ) -> None:
        """Answers a question of a task. Returns when the answer would survive the death of this process; the
        task goes on by itself."""
        doing = await self._runner.accept(pause, value, refused=refused, principal=principal)
        if doing is not None:
            self._go_on(state.run.id, doing)

    async def cancel(self, task_id: str, principal: Principal) -> None:
        """Ends a task, wherever it is at work. One that has ended stays as it is."""
        state = await self.state(task_id, principal, looks_after=False)
        if state.run.status not in OPEN:
            return
        job = self._jobs.get(state.run.id)
        # A job may also be one that only tries to take the run over.
        if job is not None and self._runner.executes(state.run.id):
            job.cancel()
            await asyncio.wait({job})
            return
        await self._runner.cancel(state.run, "the client cancelled it")

    async def close(self) -> None:
        """Ends the work in this process. Another one can go on with it once the leases have run out."""
        jobs = dict(self._jobs)
        for run_id in jobs:
            self._runner.let_go(run_id)
        if jobs:
            await asyncio.wait(jobs.values(), timeout=CLOSING)
        for job in jobs.values():
            job.cancel()
        await asyncio.gather(*jobs.values(), return_exceptions=True)


def _no_queue() -> None:
    """The queue of tasks where there is no engine."""


def _continued_in(outcome: Result | SpindleError) -> str | None:
    found = outcome.structured if isinstance(outcome, Result) else None
    return found.get(CONTINUES) if is_object(found) else None
