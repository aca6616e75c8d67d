"""Turns that DBOS would leave behind, and what it must have for us to look after them."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import dbos
import psycopg
import pytest
from dbos import _queue, _sys_db

from servers.postgres import PostgresServer, running_server
from servers.running import PATIENCE
from spindle.domain.engine import QueueConfig
from spindle.engines.dbos import DbosEngine
from spindle.engines.dbos_place import EnginePlace
from spindle.engines.dbos_worker import PRIVATE, DbosWorker
from spindle.ports.engine import EngineWorker, RunTurn
from spindle.stores.postgres.address import parse

QUEUES = {"default": QueueConfig(), "single": QueueConfig(concurrency=1, total=1)}


class Place:
    """An engine in PostgreSQL, whose rows a test can change as a fault would leave them."""

    def __init__(self, url: str) -> None:
        address = parse(url)
        self.conninfo = address.conninfo
        self.schema = f"{address.schema}_engine"
        self.notes: list[str] = []

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[DbosEngine]:
        place = EnginePlace.of(self.conninfo, self.schema, Path())
        engine = DbosEngine(place, QUEUES, self.notes.append)
        try:
            yield engine
        finally:
            await engine.close()

    def execute(self, statement: str, *values: Any) -> list[Any]:
        with psycopg.connect(self.conninfo, autocommit=True) as connection:
            done = connection.execute(statement.format(schema=self.schema).encode(), values)
            return done.fetchall() if done.description else []

    def begun_by(self, worker: str, *turns: str) -> None:
        """As DBOS has it when a worker has claimed turns, and that is all that is known of it."""
        self.execute(
            "UPDATE {schema}.workflow_status SET status = 'PENDING', executor_id = %s, owner_xid = 'lost',"
            " application_version = '1', started_at_epoch_ms = 0 WHERE workflow_uuid = ANY(%s)",
            worker, list(turns),
        )  # fmt: skip


@pytest.fixture
def place(postgres_url: str) -> Place:
    return Place(postgres_url)


class Executed:
    """The turns that were executed, each once it may end."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def __call__(self, run: str, number: int) -> None:
        self.runs.append(run)
        await self.may_end.wait()

    async def until(self, is_true: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not is_true():
                await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def working(
    engine: DbosEngine, executed: Executed, *queues: str, id: str = "", **more: Any
) -> AsyncIterator[None]:
    ready = asyncio.Event()
    worker = EngineWorker(
        id or uuid.uuid4().hex, executed, queues or ("default",), on_ready=ready.set, **more
    )
    task = asyncio.create_task(engine.work(worker))
    try:
        async with asyncio.timeout(PATIENCE):
            await ready.wait()
        yield
    finally:
        executed.may_end.set()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def test_dbos_still_has_the_names_that_are_not_public() -> None:
    """If this fails after an upgrade of DBOS, see what has taken their place before raising its bound."""
    classes = {
        "DBOS": dbos.DBOS,
        "DBOSClient": dbos.DBOSClient,
        "Queue": _queue.Queue,
        "SystemDatabase": _sys_db.SystemDatabase,
    }
    for name, attributes in PRIVATE.items():
        known = {*dir(classes[name]), *classes[name].__init__.__code__.co_names}
        assert set(attributes) <= known, name
    # The thread of a queue asks for its settings before each look, and waits as long as they say.
    thread = _queue.queue_worker_thread.__code__
    assert {"get_queue", "_polling_interval_sec", "start_queued_workflows"} <= {*thread.co_names}


async def test_453_the_turns_of_a_dead_worker_go_on_at_another(place: Place) -> None:
    async with place.opened() as engine:
        turns = [RunTurn(f"r{number}", 1, "default") for number in range(3)]
        for turn in turns:
            await engine.submit(turn)
        place.begun_by("who died", *[turn.id for turn in turns])
        executed = Executed()
        async with working(engine, executed):
            await executed.until(lambda: len(executed.runs) == 3)
    assert sorted(executed.runs) == ["r0", "r1", "r2"]


async def test_716_a_restart_of_the_database_meanwhile_leaves_none_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with running_server() as server:
        place = Place(server.url(schema="test"))
        async with place.opened() as engine:
            turns = [RunTurn(f"r{number}", 1, "default") for number in range(20)]
            for turn in turns:
                await engine.submit(turn)
            place.begun_by("who died", *[turn.id for turn in turns])
            restarts = _restarted_once(server, monkeypatch)
            executed = Executed()
            async with working(engine, executed):
                await executed.until(lambda: len({*executed.runs}) == 20)
                assert restarts == [20]
                async with asyncio.timeout(PATIENCE):
                    while await engine.unfinished([turn.id for turn in turns]):
                        await asyncio.sleep(0.05)


def _restarted_once(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Restarts the server at the moment in which turns are given back for the first time."""
    give_back, restarts = DbosWorker._give_back, list[int]()

    async def given_back(self: DbosWorker, turns: list[Any]) -> None:
        if turns and not restarts:
            restarts.append(len(turns))
            server.stop(signal.SIGQUIT)
            starting = asyncio.get_running_loop().run_in_executor(None, server.start)
            try:
                await give_back(self, turns)
            finally:
                await starting
        else:
            await give_back(self, turns)

    monkeypatch.setattr(DbosWorker, "_give_back", given_back)
    return restarts


async def test_804_a_worker_that_is_about_to_end_takes_nothing_more(place: Place) -> None:
    may_take = True
    async with place.opened() as engine:
        executed = Executed()
        async with working(engine, executed, may_take=lambda: may_take):
            await engine.submit(RunTurn("before", 1, "default"))
            await executed.until(lambda: executed.runs == ["before"])
            may_take = False
            await engine.submit(RunTurn("after", 1, "default"))
            # As if it had been claimed in the moment before.
            await engine.submit(RunTurn("claimed", 1, "default"))
            assert await engine.unfinished(["after.1", "claimed.1"]) == {"after.1", "claimed.1"}
        async with working(engine, executed):
            await executed.until(lambda: len(executed.runs) == 3)
    assert executed.runs[0] == "before"
    assert sorted(executed.runs[1:]) == ["after", "claimed"]


async def test_804_a_turn_that_came_too_late_is_given_to_another_at_once(place: Place) -> None:
    answers = iter([True, False])  # the thread of the queue may look, and then the turn may not begin
    async with place.opened() as engine:
        executed = Executed()
        await engine.submit(RunTurn("late", 1, "default"))
        async with working(engine, executed, may_take=lambda: next(answers, False)):
            async with asyncio.timeout(PATIENCE):
                while next(answers, None) is not None or _status(place, "late.1") != "ENQUEUED":
                    await asyncio.sleep(0.01)
        assert executed.runs == []
        async with working(engine, executed):
            await executed.until(lambda: executed.runs == ["late"])


def _status(place: Place, turn: str) -> str:
    return place.execute("SELECT status FROM {schema}.workflow_status WHERE workflow_uuid = %s", turn)[0][0]


async def test_805_a_turn_that_was_lost_on_its_way_does_not_block_its_queue(place: Place) -> None:
    """Also while the worker lives that was to execute it."""
    async with place.opened() as engine:
        executed = Executed()
        async with working(engine, executed, "single", id="alive"):
            executed.may_end.clear()
            await engine.submit(RunTurn("first", 1, "single"))
            await executed.until(lambda: executed.runs == ["first"])
            for name in ("lost", "behind"):
                await engine.submit(RunTurn(name, 1, "single"))
            place.begun_by("alive", "lost.1")
            executed.may_end.set()
            await executed.until(lambda: len(executed.runs) == 3)
    assert sorted(executed.runs) == ["behind", "first", "lost"]


@pytest.mark.parametrize("count", [1, 25])
async def test_turns_are_fetched_when_there_are_some_not_when_time_has_passed(
    place: Place, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr("spindle.engines.waking.QUIET", 2 * PATIENCE)
    async with place.opened() as engine, place.opened() as other:
        executed = Executed()
        async with working(engine, executed):
            await executed.until(lambda: "LISTEN" in _last_statements(place))
            for number in range(count):
                await other.submit(RunTurn(f"r{number}", 1, "default"))
            await executed.until(lambda: len(executed.runs) == count)


def _last_statements(place: Place) -> str:
    found = place.execute("SELECT query FROM pg_stat_activity WHERE query LIKE 'LISTEN%%'")
    return " ".join(query for (query,) in found)


async def test_connections_that_were_lost_while_idle_are_replaced(place: Place) -> None:
    async with place.opened() as engine:
        await engine.submit(RunTurn("first", 1, "default"))
        lost = place.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        assert lost, "it keeps connections"
        await engine.submit(RunTurn("second", 1, "default"))
        assert await engine.unfinished(["first.1", "second.1"]) == {"first.1", "second.1"}


async def test_a_connection_that_comes_back_after_the_end_is_closed(place: Place) -> None:
    async with place.opened() as engine:
        held = engine.connections().connect()
        connection = held.connection.dbapi_connection
        assert isinstance(connection, psycopg.Connection)
    assert not connection.closed, "somebody has it"
    held.close()
    assert connection.closed
