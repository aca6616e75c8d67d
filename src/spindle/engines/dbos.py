"""DBOS as the engine, on the database of the workspace's store.

A turn is a workflow of DBOS without steps: DBOS keeps it, and hands it to one worker at a time. Nothing of a
run is in it but the run's id.

Some names of DBOS that are used here are not public: there is no other way to migrate without launching, to
give a dead worker's workflows back to their queues, and to have a limit for one worker. So its version is
bounded above, and the contract of engines tests these.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.domain.engine import QueueConfig
from spindle.engines.alive import FileLocks, Locks, PostgresLocks
from spindle.errors import ConfigurationError, NotFoundError, StoreError, did_you_mean
from spindle.ports.engine import EngineWorker, Execute, RunTurn
from spindle.threads import in_thread

if TYPE_CHECKING:
    import sqlalchemy
    from dbos import DBOS, DBOSClient, EnqueueOptions

    from spindle.ports.source import Note

APPLICATION = "spindle"
VERSION = "1"
"""Of what a turn is. DBOS would take a digest of the source code, and an edit would leave turns behind."""
WORKFLOW = "turn"
UNFINISHED = ["ENQUEUED", "DELAYED", "PENDING"]
POLL = 0.2
"""Seconds after which a worker looks for new turns."""
LOOK_FOR_DEAD = 1.0
CONNECTIONS = 5
THREAD = "spindle-engine"
BUSY = 30.0
"""Seconds that writers wait for each other, in SQLite."""

_execute: Execute | None = None
"""Executes the turns of this process. DBOS has one instance in a process, and so have we."""


@dataclass(frozen=True, slots=True)
class EnginePlace:
    """The database of an engine: the connection string and schema of PostgreSQL, or the file of SQLite."""

    conninfo: str | None
    schema: str | None
    file: Path

    def locks(self) -> Locks:
        if self.conninfo is None:
            return FileLocks(self.file.parent / "workers")
        return PostgresLocks(self.conninfo, self.schema or "")

    def engine(self) -> sqlalchemy.Engine:
        """The connections for DBOS, which takes an engine of SQLAlchemy as it is."""
        import sqlalchemy
        from sqlalchemy import event

        if self.conninfo is not None:
            import psycopg

            conninfo = self.conninfo
            return sqlalchemy.create_engine(
                "postgresql+psycopg://", creator=lambda: psycopg.connect(conninfo),
                pool_size=CONNECTIONS, max_overflow=0, pool_pre_ping=True,
            )  # fmt: skip
        self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.file.touch(mode=0o600)
        engine = sqlalchemy.create_engine(
            f"sqlite:///{self.file}", pool_size=CONNECTIONS, max_overflow=0, connect_args={"timeout": BUSY}
        )

        def set_up(connection: sqlite3.Connection, _: Any) -> None:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
            # Writers wait for each other at the beginning of a transaction, where that is no deadlock.
            connection.isolation_level = "IMMEDIATE"

        event.listen(engine, "connect", set_up)
        return engine


class DbosEngine:
    """Keeps turns in DBOS. Everything is opened when it is first needed."""

    def __init__(self, place: EnginePlace, queues: Mapping[str, QueueConfig], note: Note) -> None:
        self._place = place
        self._queues = queues
        self._note = note
        self._opening = asyncio.Lock()
        self._engine: sqlalchemy.Engine | None = None
        self._client: DBOSClient | None = None

    @property
    def queues(self) -> Mapping[str, QueueConfig]:
        return self._queues

    def queue(self, name: str) -> QueueConfig:
        if name not in self._queues:
            known = f"the queues of [engine.queues] are {', '.join(self._queues)}"
            raise NotFoundError(f"there is no queue {name!r}", hint=did_you_mean(name, self._queues, known))
        return self._queues[name]

    async def submit(self, turn: RunTurn) -> None:
        options: EnqueueOptions = {
            "workflow_name": WORKFLOW,
            "queue_name": turn.queue,
            "workflow_id": turn.id,
            "app_version": VERSION,
            "priority": turn.priority,
        }
        delay = 0.0 if turn.not_before is None else turn.not_before - time.time()
        if delay > 0:
            options["delay_seconds"] = delay

        def enqueue(client: DBOSClient) -> str:
            return client.enqueue(options, turn.run, turn.number).get_workflow_id()  # pyright: ignore[reportUnknownMemberType]

        await self._asked(enqueue)

    async def unfinished(self, turns: Collection[str]) -> set[str]:
        if not turns:
            return set()
        found = await self._asked(
            lambda client: client.list_workflows(
                workflow_ids=list(turns), status=UNFINISHED, load_input=False, load_output=False
            )
        )
        return {workflow.workflow_id for workflow in found}

    async def cancel(self, turn: str) -> None:
        await self._asked(lambda client: client.cancel_workflow(turn))

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await in_thread(client.destroy, THREAD)
        engine, self._engine = self._engine, None
        if engine is not None:
            await in_thread(engine.dispose, THREAD)

    async def _asked(self, ask: Callable[[DBOSClient], Any]) -> Any:
        async with self._opening:
            if self._client is None:
                self._client = await in_thread(self._open_client, THREAD)
        client = self._client
        return await in_thread(lambda: _told(ask, client), THREAD)

    def _connections(self) -> sqlalchemy.Engine:
        if self._engine is None:
            self._engine = self._place.engine()
        return self._engine

    def _open_client(self) -> DBOSClient:
        quiet(self._note)
        from dbos import DBOSClient, DBOSPortableJSONSerializer

        def opened(_: None) -> DBOSClient:
            client = DBOSClient(
                system_database_engine=self._connections(),
                dbos_system_schema=self._place.schema,
                serializer=DBOSPortableJSONSerializer(),
                application_name=APPLICATION,
                retry_connection_errors=False,
            )
            client._sys_db.run_migrations()  # pyright: ignore[reportPrivateUsage]
            return client

        return _told(opened, None)

    # --- working

    async def work(self, worker: EngineWorker) -> None:
        global _execute  # noqa: PLW0603 - as DBOS itself
        quiet(self._note)
        from dbos import DBOS

        if _execute is not None:
            raise ConfigurationError("this process is a worker already", hint="start another process")
        _execute = worker.execute
        locks = self._place.locks()
        try:
            # Held before the first turn, so that whoever has turns and no lock is dead.
            async with locks.held(worker.id):
                await self._register(worker.queues)
                dbos = self._launched(worker)
                try:
                    if worker.on_ready is not None:
                        worker.on_ready()
                    await self._look_after_dead(locks, worker.id)
                finally:
                    # Its turns stay as they are, for others to find.
                    for task in list(dbos._workflow_tasks):  # pyright: ignore[reportPrivateUsage]
                        task.cancel()
                    await in_thread(lambda: DBOS.destroy(destroy_registry=True), THREAD)
                    # DBOS has put its own threads in the place of the loop's, and has just ended them.
                    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())
        finally:
            _execute = None

    def _launched(self, worker: EngineWorker) -> DBOS:
        from dbos import DBOS, DBOSPortableJSONSerializer

        dbos = DBOS(
            config={
                "name": APPLICATION,
                "system_database_engine": self._connections(),
                "dbos_system_schema": self._place.schema,
                "application_version": VERSION,
                "executor_id": worker.id,
                "serializer": DBOSPortableJSONSerializer(),
                "use_listen_notify": False,
                "log_level": "WARNING",
            }
        )
        DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)(_turn)
        DBOS.listen_queues([] if worker.concurrency else list(worker.queues))
        # On the event loop's own thread: workflows then run on this loop.
        DBOS.launch()
        if worker.concurrency is not None:
            _limit(dbos, worker.concurrency)
            dbos._listening_queues = list(worker.queues)  # pyright: ignore[reportPrivateUsage]
        return dbos

    async def _register(self, names: Collection[str]) -> None:
        """Tells DBOS of the queues. They are in its database, so the worker that starts last decides."""
        for name in names:
            queue = self._queues[name]
            rate = queue.rate and {"limit": max(int(queue.rate.calls), 1), "period": queue.rate.seconds}
            limits: dict[str, Any] = {
                "worker_concurrency": min(queue.concurrency, queue.total or queue.concurrency),
                "global_concurrency": queue.total,
                "limiter": rate,
                "polling_interval_sec": POLL,
            }
            await self._asked(partial(_register, name, limits))

    async def _look_after_dead(self, locks: Locks, own: str) -> None:
        """Gives the turns of dead workers back to their queues, until it is cancelled."""
        from dbos import DBOS

        pending = partial(DBOS.list_workflows, status="PENDING", load_input=False, load_output=False)
        while True:
            try:
                begun = await in_thread(pending, THREAD)
                for other in {workflow.executor_id for workflow in begun} - {own, None}:
                    async with locks.taken_if_dead(str(other)) as is_dead:
                        if is_dead:
                            # Changes only what the dead one still has.
                            recover = DBOS._recover_pending_workflows  # pyright: ignore[reportPrivateUsage]
                            await in_thread(partial(recover, [str(other)]), THREAD)
            except Exception as error:  # noqa: BLE001 - a task's top: the next look may do better
                self._note(f"the turns of dead workers could not be looked for: {error}")
            await asyncio.sleep(LOOK_FOR_DEAD)


def _register(name: str, limits: dict[str, Any], client: DBOSClient) -> None:
    client.register_queue(name, **limits)


def _limit(dbos: DBOS, most: int) -> None:
    """Has this worker take no more turns of a queue at once. A queue's own limit is that of all workers."""
    database = dbos._sys_db  # pyright: ignore[reportPrivateUsage]
    read = database.get_queue

    def limited(name: str, **more: Any) -> Any:
        queue = read(name, **more)
        if queue is not None:
            queue._worker_concurrency = min(most, queue._worker_concurrency or most)  # pyright: ignore[reportPrivateUsage]
        return queue

    database.get_queue = limited


async def _turn(run: str, number: int) -> None:
    assert _execute is not None
    await _execute(run, number)


def _told(ask: Callable[[Any], Any], of: Any) -> Any:
    """Asks DBOS; what its database says is an error of the store."""
    import sqlalchemy.exc

    try:
        return ask(of)
    except sqlalchemy.exc.SQLAlchemyError as error:
        raise StoreError(f"the engine's tables cannot be used: {error.__cause__ or error}") from None


class _Notes(logging.Handler):
    def __init__(self, note: Note) -> None:
        super().__init__(logging.WARNING)
        self._note = note

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(Exception):
            self._note(f"engine: {record.getMessage()}")


def quiet(note: Note) -> None:
    """Has warnings of DBOS said as notes. It would else write to the terminal itself."""
    logger = logging.getLogger("dbos")
    logger.propagate = False
    logger.handlers = [_Notes(note)]
