"""Submitted runs that nobody has, that fail again and again, or that kill whoever takes them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import spindle
from servers.leases import end_leases
from servers.workers import until_it_is
from spindle.app import Spindle
from spindle.calls.caller import Caller
from spindle.calls.options import DEFAULT_OPTIONS
from spindle.domain.run import Run, RunEvent
from spindle.engines.dbos import DbosEngine
from spindle.errors import StoreAwayError, StoreError
from spindle.ports.engine import RunTurn
from spindle.runs.placing import Placing
from spindle.runs.submissions import HANDED_OVER, MAX_TAKEOVERS
from spindle.serving.working import work

SETTINGS = "[engine.queues.default]\nretries = 2\nbackoff = 0.05\n"
TOOLS = """
from pathlib import Path
from spindle import ConnectionFailedError, tool

HERE = Path(__file__).parent.parent

@tool(idempotent=True)
def fetch(times: int) -> int:
    "Fail so often, then succeed."
    with open(HERE / "tries", "a") as file:
        file.write(".")
    made = len((HERE / "tries").read_text())
    if made <= times:
        raise ConnectionFailedError("nobody answers")
    return made
"""


WAITING = """
import asyncio
from pathlib import Path
from spindle import tool

HERE = Path(__file__).parent.parent

@tool(idempotent=True)
async def wait_for_file() -> str:
    "Wait for a file."
    (HERE / "waits").touch()
    while not (HERE / "go").exists():
        await asyncio.sleep(0.01)
    return "went"
"""


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[Spindle]:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "fetching.py").write_text(TOOLS)
    (tmp_path / "tools" / "waiting.py").write_text(WAITING)
    (tmp_path / "spindle.toml").write_text(SETTINGS)
    async with spindle.open(tmp_path) as opened:
        await opened.sync()
        yield opened


@contextlib.asynccontextmanager
async def working(app: Spindle) -> AsyncIterator[list[str]]:
    notes: list[str] = []
    task = asyncio.create_task(work(app, ["default"], None, notes.append))
    try:
        yield notes
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def fetched(app: Spindle, times: int) -> Run:
    return await app.submit(f"fetch --times {times}")


async def test_a_run_that_was_stored_and_never_handed_over_is_found(
    app: Spindle, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(self: DbosEngine, turn: RunTurn) -> None:
        raise StoreError("the database is away")

    with monkeypatch.context() as patched:
        patched.setattr(DbosEngine, "submit", away)
        run = await fetched(app, 0)
    assert run.status == "queued"
    assert await app.runner.submissions.recover() == 0, "whoever submits it may be about to hand it over"
    stored = await app.store.run(run.id)
    assert stored is not None
    monkeypatch.setattr("spindle.runs.submissions.HANDED_OVER", -HANDED_OVER)
    assert await app.runner.submissions.recover() == 1
    assert await app.runner.submissions.recover() == 0, "the engine has it now"
    async with working(app):
        ended = await until_it_is(app, run.id, "done")
    assert ended.turn == 2


async def test_a_run_that_fails_with_an_error_that_may_pass_goes_on_by_itself(app: Spindle) -> None:
    async with working(app):
        # More often than a call is tried again by itself.
        assert (await until_it_is(app, (await fetched(app, 4)).id, "done")).turn == 2


async def test_it_fails_when_it_was_retried_often_enough(app: Spindle) -> None:
    async with working(app):
        run = await fetched(app, 1000)
        deadline = time.monotonic() + 60
        while (found := await app.store.run(run.id)) is None or (found.status, found.turn) != ("failed", 3):
            assert time.monotonic() < deadline, found
            await asyncio.sleep(0.02)
    assert found.error is not None
    assert "nobody answers" in found.error["message"]


async def test_a_run_that_kills_its_workers_is_given_up_with_the_reason(app: Spindle) -> None:
    run = await fetched(app, 0)
    for number in range(MAX_TAKEOVERS):
        assert await app.store.take_turn(run.id, 1, f"dead {number}", 0.0, time.time())
        held = await app.store.run(run.id)
        assert held is not None
        assert await app.store.save_events(held, [RunEvent(run.id, "resumed", time.time())])
    async with working(app):
        failed = await until_it_is(app, run.id, "failed")
        assert failed.error is not None
        assert "taken up 5 times without coming further" in failed.error["message"]
        assert await app.runner.submissions.retry(run.id) is None
        await until_it_is(app, run.id, "done")


async def test_a_first_execution_that_left_no_trace_counts_too(app: Spindle) -> None:
    run = await fetched(app, 0)
    assert await app.store.take_turn(run.id, 1, "dead", 0.0, time.time())
    await app.runner.submissions.execute(run.id, 1)
    await until_it_is(app, run.id, "done")
    kinds = [event.kind for event in await app.store.history(run.id)]
    assert kinds[:3] == ["started", "resumed", "resumed"]
    first = await fetched(app, 0)
    await app.runner.submissions.execute(first.id, 1)
    assert [event.kind for event in await app.store.history(first.id)].count("resumed") == 1


@pytest.mark.parametrize("status", ["queued", "running", "paused"])
async def test_a_run_that_a_worker_takes_meanwhile_is_cancelled_too(
    app: Spindle, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    run = await fetched(app, 0)
    executions, notes = app.runner.submissions._executions, list[str]()  # pyright: ignore[reportPrivateUsage]
    own = executions.load

    async def load(id: str, *rest: Any) -> Any:
        """Loads it after another has taken it, once."""
        if not notes:
            notes.append("taken")
            assert await app.store.take_turn(id, 1, "another", 10.0, time.time())
        return await own(id, *rest)

    if status == "queued":
        monkeypatch.setattr(executions, "load", load)
    else:
        assert await app.store.take_turn(run.id, 1, "one", 10.0, time.time())
        held = await app.store.run(run.id)
        assert held is not None
        if status == "paused":  # it is put back meanwhile
            assert await app.store.save_run(replace(held, status="paused", lease=None))
        run = replace(held, status="running")
        if status == "running":
            assert await app.store.take_turn(run.id, 1, "another", 10.0, time.time())
    await app.runner.cancel(run, "not needed")
    found = await app.store.run(run.id)
    assert found is not None
    assert (found.status, found.error and found.error["message"]) == ("cancelled", "not needed")


async def test_a_call_of_a_tool_is_submitted_like_a_flow(app: Spindle) -> None:
    given = {"tool": "fetch", "arguments": {"times": 0}}
    run = await app.runner.submissions.submit("call", "fetch", given, DEFAULT_OPTIONS, Placing())
    async with working(app):
        ended = await until_it_is(app, run.id, "done")
    assert (await app.runner.outcome(ended)).structured == 1


@pytest.mark.parametrize("kind", ["flow", "call"])
async def test_a_step_that_outlasts_the_patience_of_a_stopped_worker_is_left_to_others(
    app: Spindle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    if kind == "flow":
        run = await app.submit("wait_for_file")
    else:
        given = {"tool": "wait_for_file", "arguments": {}}
        run = await app.runner.submissions.submit("call", "wait_for_file", given, DEFAULT_OPTIONS, Placing())
    with monkeypatch.context() as patched:
        patched.setattr("spindle.serving.working.PATIENCE", 0.05)
        async with working(app):
            while not (tmp_path / "waits").exists():
                await asyncio.sleep(0.01)
    left = await app.store.run(run.id)
    assert left is not None
    assert left.status in ("running", "queued")
    (tmp_path / "go").touch()
    async with spindle.open(tmp_path) as other, working(other):
        await end_leases(app.store)
        ended = await until_it_is(other, run.id, "done")
    assert (await app.runner.outcome(ended)).text == "went"


SORRY = """
nodes:
  - {id: fetch, tool: fetch, params: {times: 0}}
  - {id: sorry, tool: fetch, params: {times: 1000}}
edges:
  - {from: fetch, to: sorry, action: error}
outputs: {made: "${fetch}"}
"""


@pytest.mark.parametrize("where", ["find", "call"])
async def test_a_store_that_is_away_is_no_failure_of_a_node_and_the_run_goes_on_elsewhere(
    app: Spindle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Not even where the flow says what follows on failures: before, it would have taken that edge."""
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "fetching.yaml").write_text(SORRY)
    tried = asyncio.Event()

    async def away(self: Caller, *_: Any, **__: Any) -> Any:
        tried.set()
        raise StoreAwayError("the database is away")

    run = await app.submit("fetching", {})
    with monkeypatch.context() as patched:
        patched.setattr(Caller, where, away)
        async with working(app):
            await tried.wait()
            while app.runner.submissions.is_busy:
                await asyncio.sleep(0.01)
    left = await app.store.run(run.id)
    assert left is not None
    assert left.status in ("running", "queued")
    async with spindle.open(tmp_path) as other, working(other):
        await end_leases(app.store)
        ended = await until_it_is(other, run.id, "done", "failed")
    assert (await app.runner.outcome(ended)).structured == {"made": 1}
