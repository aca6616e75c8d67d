"""A worker of DBOS: takes turns from its queues, and gives back those that nobody executes.

Some names of DBOS that are used here are not public (`PRIVATE`): there is no other way to migrate without
launching, to have a limit for one worker, to look for turns when there are some, and to hear at once that the
database is away. So its version is bounded above, and a test says which of them an upgrade has moved.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from spindle.engines.dbos_place import APPLICATION, BEGUN, THREAD, VERSION, WORKFLOW
from spindle.engines.waking import DEAF, Waking, listen
from spindle.errors import ConfigurationError
from spindle.ports.engine import turn_id
from spindle.threads import in_thread

if TYPE_CHECKING:
    import sqlalchemy
    from dbos import DBOS, DBOSClient, WorkflowStatus

    from spindle.domain.engine import QueueConfig
    from spindle.engines.alive import Locks
    from spindle.engines.dbos_place import EnginePlace
    from spindle.ports.engine import EngineWorker
    from spindle.ports.source import Note

LOOK = 0.5
"""Seconds between two looks for turns that nobody executes."""
LOST = 5.0
"""Seconds after which a turn of this worker that it does not execute was lost on its way."""
SETTINGS_AGE = 5.0
"""Seconds after which a worker reads the settings of a queue again."""
AT_ONCE = 0.001
"""Seconds that DBOS waits before it looks, after `Waking` has said when."""
PRIVATE = {
    "DBOS": ("_listening_queues", "_sys_db"),
    "DBOSClient": ("_sys_db",),
    "Queue": ("_concurrency", "_limiter", "_polling_interval_sec", "_worker_concurrency"),
    "SystemDatabase": ("_retry_connection_errors", "get_queue", "run_migrations"),
}
"""Names of DBOS that are used and not public, by the class that has them."""

_working: DbosWorker | None = None
"""DBOS has one instance in a process, and so have we."""


class DbosWorker:
    """Executes turns, for as long as `work` runs."""

    def __init__(
        self,
        place: EnginePlace,
        connections: sqlalchemy.Engine,
        asked: Callable[[Callable[[DBOSClient], Any]], Awaitable[Any]],
        queues: Mapping[str, QueueConfig],
        worker: EngineWorker,
        note: Note,
    ) -> None:
        self._place = place
        self._connections = connections
        self._asked = asked
        self._queues = queues
        self._worker = worker
        self._note = note
        places = [limits_of(queues[name])["worker_concurrency"] for name in worker.queues]
        self._enough = sum(min(most, worker.concurrency or most) for most in places) / 2
        """Turns in hand with which it need not hurry to take more."""
        self._waking = Waking(worker.queues, lambda: len(self._in_hand) > self._enough)
        self._in_hand: dict[str, asyncio.Task[Any]] = {}
        """By turn, the task that executes it."""

    async def work(self) -> None:
        """Executes turns until it is cancelled."""
        global _working  # noqa: PLW0603 - as DBOS itself
        if _working is not None:
            raise ConfigurationError("this process is a worker already", hint="start another process")
        _working = self
        locks = self._place.locks()
        try:
            # Held before the first turn, so that whoever has turns and no lock is dead.
            async with locks.held(self._worker.id), self._listening():
                for name in self._worker.queues:
                    await self._register(name)
                await self._launched(locks)
        finally:
            _working = None

    async def turn(self, run: str, number: int) -> None:
        """Executes a turn that DBOS has given to this process."""
        task = asyncio.current_task()
        assert task is not None
        id = turn_id(run, number)
        self._in_hand[id] = task
        try:
            if not self._worker.may_take():
                await self._leave(id)
            await self._worker.execute(run, number)
        finally:
            if self._in_hand.get(id) is task:  # and it was not given to this process once more
                del self._in_hand[id]
            self._waking.wake()

    async def _leave(self, id: str) -> None:
        """Gives a turn to other workers that came when this one was about to end."""
        await self._give_back([turn for turn in await self._begun(self._worker.id) if turn.workflow_id == id])
        await asyncio.get_running_loop().create_future()  # until this worker has ended

    @contextlib.asynccontextmanager
    async def _listening(self) -> AsyncGenerator[None]:
        if self._place.conninfo is None:
            yield
            return
        listening = asyncio.create_task(
            listen(self._place.conninfo, self._place.schema or "", self._waking), name="listening for turns"
        )
        try:
            yield
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    async def _register(self, name: str) -> None:
        """Tells DBOS of a queue. Its database has the settings of the worker that started last, by which the
        others notice that theirs differ; each keeps to its own."""
        limits: dict[str, Any] = {**limits_of(self._queues[name]), "polling_interval_sec": DEAF}
        await self._asked(lambda client: client.register_queue(name, **limits))

    async def _launched(self, locks: Locks) -> None:
        from dbos import DBOS, DBOSPortableJSONSerializer

        dbos = DBOS(
            config={
                "name": APPLICATION,
                "system_database_engine": self._connections,
                "dbos_system_schema": self._place.schema,
                "application_version": VERSION,
                "executor_id": self._worker.id,
                "serializer": DBOSPortableJSONSerializer(),
                "use_listen_notify": False,
                "log_level": "WARNING",
            }
        )
        DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)(_turn)
        # This worker's own settings hold from the first look on.
        DBOS.listen_queues([])
        # On the event loop's own thread: workflows then run on this loop.
        DBOS.launch()
        try:
            self._adapt(dbos)
            if self._worker.on_ready is not None:
                self._worker.on_ready()
            await self._look_after_turns(locks)
        finally:
            # Its turns stay as they are, for others to find.
            for task in self._in_hand.values():
                task.cancel()
            self._waking.end()
            await in_thread(lambda: DBOS.destroy(destroy_registry=True), THREAD)
            # DBOS has put its own threads in the place of the loop's, and has just ended them.
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())

    def _adapt(self, dbos: DBOS) -> None:
        """Has DBOS look for turns when there are some, and keep to this worker's own settings."""
        database = dbos._sys_db  # pyright: ignore[reportPrivateUsage]
        # DBOS would sleep for up to a minute, and with it all that we have asked.
        database._retry_connection_errors = False  # pyright: ignore[reportPrivateUsage]
        read: Callable[..., Any] = database.get_queue
        known: dict[str, tuple[float, Any]] = {}
        own = {name: limits_of(self._queues[name]) for name in self._worker.queues}
        told: dict[str, str] = {}

        def adapted(name: str, **more: Any) -> Any:
            """Called before each look, in the thread of the queue."""
            self._waking.wait(name)
            while not (self._worker.may_take() or self._waking.has_ended):
                self._waking.wait(name)
            at, queue = known.get(name, (0.0, None))
            if time.monotonic() - at > SETTINGS_AGE:
                queue = read(name, **more)
                known[name] = (time.monotonic(), queue)
            if queue is None:
                return None
            if name in own and queue._polling_interval_sec != AT_ONCE:  # it was just read
                said = _difference(name, own[name], queue)
                if said and said != told.get(name):
                    self._note(said)
                told[name] = said
                queue._concurrency, queue._limiter = own[name]["global_concurrency"], own[name]["limiter"]
                queue._worker_concurrency = own[name]["worker_concurrency"]
                if self._worker.concurrency is not None:
                    queue._worker_concurrency = min(queue._worker_concurrency, self._worker.concurrency)
            queue._polling_interval_sec = AT_ONCE
            return queue

        database.get_queue = adapted
        dbos._listening_queues = list(self._worker.queues)  # pyright: ignore[reportPrivateUsage]

    # --- looking after turns that nobody executes

    async def _look_after_turns(self, locks: Locks) -> None:
        """Gives turns back to their queues whose worker is dead, or that were lost on their way to this one,
        until it is cancelled."""
        lost: dict[str, float] = {}
        while True:
            try:
                begun = await self._begun()
                for other in {turn.executor_id for turn in begun} - {self._worker.id, None}:
                    async with locks.taken_if_dead(str(other)) as is_dead:
                        if is_dead:
                            await self._give_back(await self._begun(other))
                lost = await self._give_back_lost(begun, lost)
            except Exception as error:  # noqa: BLE001 - a task's top: the next look may do better
                self._note(f"the turns of dead workers could not be looked for: {error}")
            await asyncio.sleep(LOOK)

    async def _begun(self, worker: str | None = None) -> list[WorkflowStatus]:
        return await self._asked(
            lambda client: client.list_workflows(
                status=BEGUN, name=WORKFLOW, executor_id=worker, load_input=False, load_output=False
            )
        )

    async def _give_back_lost(self, begun: list[WorkflowStatus], since: dict[str, float]) -> dict[str, float]:
        """Gives turns back that are this worker's and that it has not executed for some time: the database
        took note of it and the answer was lost, or the end could not be recorded. Returns since when each is
        known that is left."""
        now = time.monotonic()
        known = {
            turn.workflow_id: since.get(turn.workflow_id, now)
            for turn in begun
            if turn.executor_id == self._worker.id and turn.workflow_id not in self._in_hand
        }
        lost = {id for id, first in known.items() if now - first >= LOST}
        await self._give_back([turn for turn in begun if turn.workflow_id in lost])
        return {id: first for id, first in known.items() if id not in lost}

    async def _give_back(self, turns: list[WorkflowStatus]) -> None:
        for queue in {turn.queue_name for turn in turns}:
            ids = [turn.workflow_id for turn in turns if turn.queue_name == queue]
            await self._asked(partial(_resume, ids, queue))
        if turns:
            self._waking.wake()


def limits_of(queue: QueueConfig) -> dict[str, Any]:
    """Returns the settings of a queue that DBOS keeps to, by its names for them."""
    rate = queue.rate and {"limit": max(int(queue.rate.calls), 1), "period": queue.rate.seconds}
    return {
        "worker_concurrency": min(queue.concurrency, queue.total or queue.concurrency),
        "global_concurrency": queue.total,
        "limiter": rate,
    }


def _difference(name: str, own: Mapping[str, Any], there: Any) -> str:
    """Returns the note on a queue whose settings another worker has otherwise; empty if they are the same."""
    found = {
        "concurrency": (own["worker_concurrency"], there._worker_concurrency),
        "total": (own["global_concurrency"], there._concurrency),
        "rate": (own["limiter"], there._limiter),
    }
    differ = [word for word, (here, other) in found.items() if here != other]
    if not differ:
        return ""
    return (
        f"a worker that started later has other settings for the queue {name!r} ({', '.join(differ)}): each"
        " keeps to its own; restart this one to have it take over those of the file"
    )


def _resume(turns: Collection[str], queue: str | None, client: DBOSClient) -> None:
    client.resume_workflows(list(turns), queue_name=queue)


async def _turn(run: str, number: int) -> None:
    assert _working is not None
    await _working.turn(run, number)
