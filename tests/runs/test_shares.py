"""The share of a queue that one principal may have: whoever floods it makes nobody else wait."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

import spindle
from servers.running import PATIENCE
from servers.workers import until_it_is
from spindle.app import Spindle
from spindle.calls.options import CallOptions
from spindle.domain.engine import QueueConfig
from spindle.domain.identity import Principal
from spindle.domain.run import Run
from spindle.errors import BusyError, NotFoundError
from spindle.runs.placing import Placing
from spindle.serving.working import work

SETTINGS = "[engine.queues.fair]\ntotal = 4\nlimit = 40\nshare = 0.5\n"
TOOLS = """
import asyncio
from pathlib import Path
from spindle import Context, tool

HERE = Path(__file__).parent.parent

@tool(idempotent=True)
async def hold(context: Context, name: str) -> str:
    "Wait until a file is there."
    with open(HERE / "log", "a") as log:
        log.write(f"{name}\\n")
    while not (HERE / "go").exists():
        await asyncio.sleep(0.01)
    return name
"""
ANN, BEN = Principal("ann"), Principal("ben")


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[Spindle]:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "holding.py").write_text(TOOLS)
    (tmp_path / "spindle.toml").write_text(SETTINGS)
    async with spindle.open(tmp_path) as opened:
        await opened.sync()
        yield opened


@contextlib.asynccontextmanager
async def working(app: Spindle) -> AsyncIterator[None]:
    notes: list[str] = []
    task = asyncio.create_task(work(app, ["fair"], None, notes.append))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    assert notes == []


async def held(app: Spindle, principal: Principal, name: str, **placing: object) -> Run:
    return await app.runner.submissions.submit_call(
        "hold",
        {"name": name},
        CallOptions(principal),
        Placing("fair", **placing),  # pyright: ignore[reportArgumentType]
    )


async def begun(folder: Path, count: int) -> list[str]:
    async with asyncio.timeout(PATIENCE):
        while len(found := (folder / "log").read_text().split() if (folder / "log").exists() else []) < count:
            await asyncio.sleep(0.02)
    return found


async def test_one_user_floods_a_queue_and_another_is_served_at_once(app: Spindle, tmp_path: Path) -> None:
    flood = [await held(app, ANN, f"ann{number:02}") for number in range(20)]
    with pytest.raises(BusyError, match="20 runs of 'ann' wait in the queue 'fair', its share of 40"):
        await held(app, ANN, "more")
    async with working(app):
        assert sorted(await begun(tmp_path, 2)) == ["ann00", "ann01"]
        # The others wait in the store: the engine has no more of hers than she may execute.
        assert await app.runner.submissions.engine.unfinished([f"{run.id}.1" for run in flood[2:]]) == set()
        of_ben = [await held(app, BEN, f"ben{number}") for number in range(3)]
        assert sorted((await begun(tmp_path, 4))[2:]) == ["ben0", "ben1"]
        running = await app.store.runs(limit=-1, status="running")
        assert sorted(run.principal.id for run in running) == ["ann", "ann", "ben", "ben"]
        (tmp_path / "go").touch()
        for run in (*flood, *of_ben):
            assert (await until_it_is(app, run.id, "done")).turn == 1
    log = await begun(tmp_path, 23)
    assert len(set(log)) == 23
    assert [name for name in log if name.startswith("ann")][-1] in ("ann19", "ann18")


async def test_what_is_held_back_can_be_cancelled_retried_delayed_and_is_found_after_a_crash(
    app: Spindle, tmp_path: Path
) -> None:
    (tmp_path / "go").touch()
    first, second = [await held(app, ANN, name) for name in ("first", "second")]
    waits, gone = [await held(app, ANN, name) for name in ("waits", "gone")]
    later = await held(app, ANN, "later", at=time.time() + 3600)
    assert (waits.status, waits.turn) == ("queued", 0)
    await app.runner.cancel(gone, "not needed")
    assert (await until_it_is(app, gone.id, "cancelled")).turn == 0
    assert await app.runner.submissions.retry(gone.id) is None
    # Whoever should have handed over the next has died: watching over the runs does it.
    assert await app.store.take_turn(first.id, 1, "dead", 1000.0, time.time())
    taken = await app.store.run(first.id)
    assert taken is not None
    assert await app.store.save_run(replace(taken, status="done", lease=None))
    await app.runner.submissions.recover()
    assert (await until_it_is(app, waits.id, "queued")).turn == 1
    async with working(app):
        for run in (second, waits, gone):
            await until_it_is(app, run.id, "done")
    assert (await until_it_is(app, later.id, "queued")).turn == 0
    assert await app.store.queued("fair", due_by=time.time()) == 0


def test_a_share_is_a_part_of_something() -> None:
    with pytest.raises(ValueError, match="neither is set"):
        QueueConfig(share=0.5)
    assert QueueConfig(share=0.1, total=4).places_of_one == 1
    assert QueueConfig(share=0.5, limit=5).waiting_of_one == 2
    assert QueueConfig(share=0.5, limit=5).places_of_one is None


async def test_a_call_that_cannot_be_made_is_refused_before_it_is_queued(app: Spindle) -> None:
    with pytest.raises(NotFoundError):
        await app.runner.submissions.submit_call("hlod", {}, CallOptions(ANN), Placing("fair"))
    assert await app.store.queued("fair") == 0
