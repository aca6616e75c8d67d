"""What every engine must do with turns, and what one without queues says."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from spindle.domain.engine import EngineConfig, QueueConfig, TemporalConfig
from spindle.engines.dbos import DbosEngine
from spindle.engines.dbos_worker import limits_of
from spindle.engines.local import INSTALL, LocalEngine
from spindle.engines.open import open_engine
from spindle.engines.temporal import TemporalEngine
from spindle.errors import ConfigurationError
from spindle.ports.engine import Engine, EngineWorker, RunTurn
from spindle.stores.postgres.address import parse

QUEUES = {
    "default": QueueConfig(),
    "narrow": QueueConfig(concurrency=1),
    "slow": QueueConfig(rate="1/hour"),  # pyright: ignore[reportArgumentType]
}
OPENERS = ("dbos on sqlite", "dbos on postgres", "temporal")


def opener(request: pytest.FixtureRequest, name: str) -> Callable[[], Engine]:
    folder: Path = request.getfixturevalue("tmp_path")
    config = EngineConfig(kind="dbos", queues=QUEUES)
    conninfo = None
    if name == "temporal":
        server = request.getfixturevalue("temporal_server")
        place = TemporalConfig(address=server.address, prefix=f"test-{uuid.uuid4().hex}")
        config = EngineConfig(kind="temporal", queues=QUEUES, temporal=place)
    if name == "dbos on postgres":
        address = parse(request.getfixturevalue("postgres_url"))
        conninfo = (address.conninfo, address.schema)
    return lambda: open_engine(config, "somewhere", conninfo, folder, _unexpected, root=folder)


def _unexpected(text: str) -> None:
    raise AssertionError(text)


@pytest.fixture(params=OPENERS)
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[Engine]:
    opened = opener(request, request.param)()
    yield opened
    await opened.close()


class Executed:
    """Turns that a worker has executed, in their order."""

    def __init__(self) -> None:
        self.turns: list[tuple[str, int]] = []
        self.at_once = self.most_at_once = 0
        self.may_end = asyncio.Event()
        self.may_end.set()
        self._news = asyncio.Condition()

    async def __call__(self, run: str, number: int) -> None:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            async with self._news:
                self.turns.append((run, number))
                self._news.notify_all()
            await self.may_end.wait()
        finally:
            self.at_once -= 1

    async def until(self, count: int) -> None:
        async with self._news:
            await self._news.wait_for(lambda: len(self.turns) >= count)


@contextlib.asynccontextmanager
async def working(
    engine: Engine, executed: Executed, *queues: str, concurrency: int | None = None
) -> AsyncIterator[None]:
    worker = EngineWorker(uuid.uuid4().hex, executed, queues or ("default",), concurrency)
    task = asyncio.create_task(engine.work(worker))
    try:
        yield
    finally:
        executed.may_end.set()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def unfinished(engine: Engine, *turns: RunTurn) -> set[str]:
    return await engine.unfinished([turn.id for turn in turns])


async def all_wait(engine: TemporalEngine, queue: str, count: int) -> None:
    """Waits until the server has so many turns for whoever has a place for one: it hears of each from its
    workflow, some time after it was submitted."""
    from temporalio.api.enums.v1 import TaskQueueType
    from temporalio.api.taskqueue.v1 import TaskQueue
    from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest

    client = await engine._connected()  # pyright: ignore[reportPrivateUsage]
    asked = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=engine._task_queue(queue)),  # pyright: ignore[reportPrivateUsage]
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
        report_stats=True,
    )
    while (await client.workflow_service.describe_task_queue(asked)).stats.approximate_backlog_count < count:
        await asyncio.sleep(0.05)


class TestTurns:
    async def test_a_turn_waits_until_a_worker_executes_it_once(self, engine: Engine) -> None:
        first, again = RunTurn("r1", 1, "default"), RunTurn("r1", 1, "default")
        await engine.submit(first)
        await engine.submit(again)
        assert await unfinished(engine, first, RunTurn("r2", 1, "default")) == {"r1.1"}
        executed = Executed()
        async with working(engine, executed):
            await engine.submit(RunTurn("r1", 2, "default"))
            await executed.until(2)
            assert sorted(executed.turns) == [("r1", 1), ("r1", 2)]
            await engine.submit(again)
            await engine.submit(RunTurn("r3", 1, "default"))
            await executed.until(3)
            while await unfinished(engine, first):
                await asyncio.sleep(0.05)
        assert executed.turns[2] == ("r3", 1)

    async def test_smaller_priorities_come_first_and_equal_ones_in_order(self, engine: Engine) -> None:
        executed = Executed()
        executed.may_end.clear()
        await engine.submit(RunTurn("first", 1, "narrow"))
        async with working(engine, executed, "narrow"):
            await executed.until(1)
            for name, priority in (("low", 200), ("one", 100), ("two", 100), ("urgent", 1)):
                await engine.submit(RunTurn(name, 1, "narrow", priority))
            if isinstance(engine, TemporalEngine):
                await all_wait(engine, "narrow", 4)
            executed.may_end.set()
            await executed.until(5)
        del executed.turns[0]
        order = [run for run, _ in executed.turns]
        if isinstance(engine, TemporalEngine):  # it does not say in which order equal ones come
            order[1:3] = sorted(order[1:3])
        assert order == ["urgent", "one", "two", "low"]
        assert executed.most_at_once == 1

    async def test_a_turn_does_not_begin_before_its_time(self, engine: Engine) -> None:
        due = time.time() + 1.5
        await engine.submit(RunTurn("later", 1, "default", not_before=due))
        await engine.submit(RunTurn("past", 1, "default", not_before=due - 100))
        executed = Executed()
        async with working(engine, executed):
            await executed.until(2)
            assert time.time() >= due
        # In any order: a worker may take as long to begin.
        assert sorted(run for run, _ in executed.turns) == ["later", "past"]

    async def test_a_turn_that_waits_can_be_cancelled(self, engine: Engine) -> None:
        gone, stays = RunTurn("gone", 1, "default"), RunTurn("stays", 1, "default")
        await engine.submit(gone)
        await engine.submit(stays)
        await engine.cancel(gone.id)
        await engine.cancel("of-nobody.1")
        assert await unfinished(engine, gone, stays) == {"stays.1"}
        executed = Executed()
        async with working(engine, executed):
            await executed.until(1)
        assert executed.turns == [("stays", 1)]

    async def test_a_worker_takes_only_its_queues_and_no_more_than_it_may(self, engine: Engine) -> None:
        for number in range(4):
            await engine.submit(RunTurn(f"r{number}", 1, "default"))
        elsewhere = RunTurn("elsewhere", 1, "narrow")
        await engine.submit(elsewhere)
        executed = Executed()
        async with working(engine, executed, concurrency=2):
            await executed.until(4)
        assert executed.most_at_once <= 2
        assert await unfinished(engine, elsewhere) == {"elsewhere.1"}

    async def test_a_rate_lets_no_more_begin(self, engine: Engine) -> None:
        turns = [RunTurn(f"r{number}", 1, "slow") for number in range(2)]
        for turn in turns:
            await engine.submit(turn)
        executed = Executed()
        async with working(engine, executed, "slow", "default"):
            await executed.until(1)
            await engine.submit(RunTurn("other", 1, "default"))
            await executed.until(2)
        first, other = (run for run, _ in executed.turns)
        if isinstance(engine, TemporalEngine):  # it does not say in which order equal ones come
            first = min(first, "r0")
        assert (first, other) == ("r0", "other")
        assert len(await unfinished(engine, *turns)) == 1

    async def test_a_turn_that_fails_is_over_and_others_go_on(self, engine: Engine) -> None:
        failed = RunTurn("fails", 1, "default")
        await engine.submit(failed)
        executed = Executed()

        class Failing(Executed):
            async def __call__(self, run: str, number: int) -> None:
                await executed(run, number)
                if run == "fails":
                    raise RuntimeError("the store is away")

        async with working(engine, Failing()):
            await executed.until(1)
            await engine.submit(RunTurn("fine", 1, "default"))
            await executed.until(2)
            while await unfinished(engine, failed):
                await asyncio.sleep(0.05)
        assert [run for run, _ in executed.turns] == ["fails", "fine"]


class TestSettings:
    async def test_a_worker_keeps_to_its_own_settings_and_says_where_a_later_one_has_others(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("spindle.engines.dbos_worker.SETTINGS_AGE", 0.0)
        notes: list[str] = []
        own = EngineConfig(kind="dbos", queues={"narrow": QueueConfig(concurrency=1, total=1)})
        engine = open_engine(own, "somewhere", None, tmp_path, notes.append, root=tmp_path)
        executed = Executed()
        executed.may_end.clear()
        async with working(engine, executed, "narrow"):
            await engine.submit(RunTurn("first", 1, "narrow"))
            await executed.until(1)
            # As a worker with another file does when it starts.
            later = open_engine(own, "somewhere", None, tmp_path, notes.append, root=tmp_path)
            assert isinstance(later, DbosEngine)
            other = limits_of(QueueConfig(concurrency=5, total=9))
            await later.asked(lambda client: client.register_queue("narrow", **other))
            for number in range(3):
                await engine.submit(RunTurn(f"r{number}", 1, "narrow"))
            async with asyncio.timeout(30):
                while not notes:
                    await asyncio.sleep(0.05)
            executed.may_end.set()
            await executed.until(4)
            await later.close()
        await engine.close()
        assert executed.most_at_once == 1
        (said,) = notes
        assert "other settings for the queue 'narrow' (concurrency, total)" in said

    def test_tasks_need_a_queue_that_is_there(self) -> None:
        assert EngineConfig().task_queue is None
        assert EngineConfig(kind="local").task_queue is None
        assert EngineConfig(kind="dbos").task_queue == "default"
        assert EngineConfig(tasks="narrow", queues=QUEUES).task_queue == "narrow"
        with pytest.raises(ValueError, match="not among the queues"):
            EngineConfig(tasks="nowhere")
        with pytest.raises(ValueError, match="needs queues"):
            EngineConfig(kind="local", tasks="default")


class TestWithoutAnEngine:
    @pytest.mark.parametrize("engine", [LocalEngine(), LocalEngine(is_chosen=True)])
    async def test_what_needs_a_queue_is_refused_with_the_line_to_install(self, engine: Engine) -> None:
        with pytest.raises(ConfigurationError) as refused:
            await engine.submit(RunTurn("r1", 1, "default"))
        assert refused.value.hint is not None
        assert INSTALL in refused.value.hint
        with pytest.raises(ConfigurationError):
            await engine.work(EngineWorker("w1", Executed(), ["default"]))
        assert await engine.unfinished(["r1.1"]) == set()
        assert dict(engine.queues) == {}

    def test_the_settings_choose(self, tmp_path: Path) -> None:
        def opened(config: EngineConfig, address: str = "state.db") -> Engine:
            return open_engine(config, address, None, tmp_path, _unexpected, root=tmp_path)

        assert isinstance(opened(EngineConfig()), DbosEngine)
        assert isinstance(opened(EngineConfig(kind="dbos")), DbosEngine)
        assert isinstance(opened(EngineConfig(kind="local")), LocalEngine)
        with pytest.raises(ConfigurationError, match="workers can share"):
            opened(EngineConfig(), ":memory:")
