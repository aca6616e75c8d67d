"""DBOS as the engine, on the database of the workspace's store.

A turn is a workflow of DBOS without steps: DBOS keeps it, and hands it to one worker at a time. Nothing of a
run is in it but the run's id.

Here turns are submitted; `dbos_worker` executes them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from spindle.domain.engine import QueueConfig
from spindle.engines.dbos_place import (
    APPLICATION,
    THREAD,
    UNFINISHED,
    VERSION,
    WORKFLOW,
    EnginePlace,
    close_all,
    whole,
)
from spindle.engines.notes import quiet
from spindle.engines.waking import Bell, channel_of
from spindle.errors import StoreAwayError, StoreError
from spindle.ports.engine import EngineWorker, RunTurn, queue_of
from spindle.threads import in_thread

if TYPE_CHECKING:
    import sqlalchemy
    from dbos import DBOSClient, EnqueueOptions

    from spindle.ports.source import Note

FIRST_TRIES = 2
"""Tries to make the tables that may meet another process's."""
FIRST_WAIT = 0.2


class DbosEngine:
    """Keeps turns in DBOS. Everything is opened when it is first needed."""

    def __init__(self, place: EnginePlace, queues: Mapping[str, QueueConfig], note: Note) -> None:
        self._place = place
        self._queues = queues
        self._note = note
        self._opening = asyncio.Lock()
        self._engine: sqlalchemy.Engine | None = None
        self._client: DBOSClient | None = None
        self._bell = Bell(self._ring)

    @property
    def queues(self) -> Mapping[str, QueueConfig]:
        return self._queues

    def queue(self, name: str) -> QueueConfig:
        return queue_of(self._queues, name)

    async def check(self) -> None:
        """It is beside the store, so whoever can store a run can submit it."""

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

        await self.asked(enqueue)
        if delay <= 0 and self._place.conninfo is not None:
            self._bell.ring(turn.queue)

    async def unfinished(self, turns: Collection[str]) -> set[str]:
        if not turns:
            return set()
        found = await self.asked(
            lambda client: client.list_workflows(
                workflow_ids=list(turns), status=UNFINISHED, load_input=False, load_output=False
            )
        )
        return {workflow.workflow_id for workflow in found}

    async def cancel(self, turn: str) -> None:
        await self.asked(lambda client: client.cancel_workflow(turn))

    async def work(self, worker: EngineWorker) -> None:
        from spindle.engines.dbos_worker import DbosWorker

        quiet("dbos", self._note)
        await DbosWorker(self._place, self.connections(), self.asked, self._queues, worker, self._note).work()

    async def close(self) -> None:
        await self._bell.close()
        client, self._client = self._client, None
        if client is not None:
            await in_thread(client.destroy, THREAD)
        engine, self._engine = self._engine, None
        if engine is not None:
            await in_thread(lambda: close_all(engine), THREAD)

    async def asked(self, ask: Callable[[DBOSClient], Any]) -> Any:
        """Asks DBOS in a thread. Raises StoreError if its tables cannot be used, without trying for long."""
        async with self._opening:
            if self._client is None:
                self._client = await in_thread(self._open_client, THREAD)
        client = self._client
        return await in_thread(lambda: _told(ask, client), THREAD)

    def connections(self) -> sqlalchemy.Engine:
        if self._engine is None:
            self._engine = self._place.engine()
        return self._engine

    def _open_client(self) -> DBOSClient:
        quiet("dbos", self._note)
        from dbos import DBOSClient, DBOSPortableJSONSerializer

        def opened(_: None) -> DBOSClient:
            client = DBOSClient(
                system_database_engine=self.connections(),
                dbos_system_schema=self._place.schema,
                serializer=DBOSPortableJSONSerializer(),
                application_name=APPLICATION,
                retry_connection_errors=False,
            )
            with whole(self.connections()):
                client._sys_db.run_migrations()  # pyright: ignore[reportPrivateUsage]
            return client

        for _ in range(FIRST_TRIES):
            try:
                return _told(opened, None)
            except StoreError:
                time.sleep(FIRST_WAIT)  # another process may be just making the tables
        return _told(opened, None)

    async def _ring(self, queues: Collection[str]) -> None:
        assert self._place.schema is not None
        channel = channel_of(self._place.schema)

        def ring(_: DBOSClient) -> None:
            import sqlalchemy

            with self.connections().connect() as connection:
                connection.execution_options(isolation_level="AUTOCOMMIT")  # a transaction is four messages
                for queue in queues:
                    told = {"channel": channel, "queue": queue}
                    connection.execute(sqlalchemy.text("SELECT pg_notify(:channel, :queue)"), told)

        await self.asked(ring)


def _told(ask: Callable[[Any], Any], of: Any) -> Any:
    """Asks DBOS; what its database says is an error of the store."""
    import sqlalchemy.exc

    try:
        return ask(of)
    except sqlalchemy.exc.SQLAlchemyError as error:
        raise StoreAwayError(f"the engine's tables cannot be used: {error.__cause__ or error}") from None
