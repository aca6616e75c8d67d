"""Submitted runs and the workers that execute them, as real processes on real databases."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import pytest

from servers.workers import Place, flow, until_it_is, worker, workspace
from spindle.app import Spindle
from spindle.errors import BusyError, ClientError, ConfigurationError, FlowError, NotFoundError
from spindle.flows import BaseNode, Flow
from spindle.runs.outcomes import Continuing
from spindle.runs.submissions import WORKER_LEASE

APPROVED = """
inputs: {item: {type: string}}
nodes:
- {id: n0, tool: count, params: {item: "${item}", step: 0}}
- {id: n1, tool: count, params: {item: "${item}", step: 1}, approval: required}
edges: [{from: n0, to: n1}]
"""
CHARGE = """
inputs: {item: {type: string}}
nodes:
- {id: n0, tool: charge, params: {item: "${item}", until: go}}
- {id: n1, tool: count, params: {item: "${item}", step: 1}}
edges: [{from: n0, to: n1}]
"""
SETTINGS = """
[engine.queues.small]
limit = 2
[engine.queues.short]
timeout = 0.5
"""
NEEDS = """
inputs: {item: {type: string}}
nodes:
- {id: n0, tool: count, params: {item: "${item}", step: 0}}
- {id: n1, tool: needs, params: {item: "${item}", file: fixed}}
edges: [{from: n0, to: n1}]
"""


@pytest.fixture(params=["sqlite", "postgres", "temporal"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    store = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    settings = SETTINGS
    if request.param == "temporal":
        settings = request.getfixturevalue("temporal_server").settings() + SETTINGS
    made = workspace(tmp_path, store, settings)
    made.save("three", flow(3))
    made.save("waits", flow(3, until="go"))
    for name, text in (("approved", APPROVED), ("charging", CHARGE), ("needing", NEEDS)):
        (made.root / "flows" / f"{name}.yaml").write_text(text)
    return made


async def synced(app: Spindle) -> None:
    assert [report.error for report in await app.sync()] == [None, None]


async def test_a_submitted_run_waits_is_executed_and_pauses_cost_nothing(place: Place) -> None:
    async with place.opened() as app:
        await synced(app)
        first = await app.submit("three", {"item": "a"})
        assert first.status == "queued"
        assert await app.resume(first.id) == Continuing(first.id)
        one = await app.submit("three", {"item": "b"}, dedup="tuesday")
        assert (await app.submit("three", {"item": "b"}, dedup="tuesday")).id == one.id
        later = await app.submit("three", {"item": "later"}, at=time.time() + 3600)
        waits = await app.submit("approved", {"item": "c"})
        async with worker(place) as process:
            for run in (first, one):
                await until_it_is(app, run.id, "done")
            await until_it_is(app, waits.id, "paused")
            (pause,) = await app.pauses(run=waits.id)
            assert await app.resume(pause.token, True) == Continuing(waits.id)
            ended = await until_it_is(app, waits.id, "done")
            assert ended.turn == 2
            assert await process.end() == 0, process.notes
        again = await app.submit("three", {"item": "b"}, dedup="tuesday")
        assert (again.id, again.status) == (one.id, "done")
        assert (await until_it_is(app, later.id, "queued")).turn == 1
    assert set(place.counted("begun").values()) == {1}
    assert len(place.counted("ended")) == 8


async def test_a_dead_workers_run_goes_on_elsewhere_at_once(place: Place) -> None:
    async with place.opened() as app, worker(place) as first:
        await synced(app)
        run = await app.submit("waits", {"item": "a"})
        begun = await place.line("begun", "a", 0)
        assert begun["pid"] == first.pid
        async with worker(place) as second:
            died = time.time()
            await first.end(signal.SIGKILL)
            again = await place.line("begun", "a", 0, times=2)
            assert again["pid"] == second.pid
            assert again["key"] == begun["key"]
            # Before its lease has ended: the lock that it held has told, or the silence.
            assert again["at"] - died < WORKER_LEASE
            (place.root / "go").touch()
            await until_it_is(app, run.id, "done")
    assert place.counted("begun") == {("a", 0): 2, ("a", 1): 1, ("a", 2): 1}


async def test_a_step_that_may_have_been_done_is_asked_about(place: Place) -> None:
    async with place.opened() as app, worker(place) as first:
        await synced(app)
        run = await app.submit("charging", {"item": "a"})
        await place.line("begun", "a", 0)
        async with worker(place):
            await first.end(signal.SIGKILL)
            await until_it_is(app, run.id, "paused")
            (pause,) = await app.pauses(run=run.id)
            assert "in_doubt" in pause.details
            await app.resume(pause.token, {"done": True, "result": "a"})
            await until_it_is(app, run.id, "done")
    assert place.counted("begun") == {("a", 0): 1, ("a", 1): 1}


async def test_a_worker_that_is_stopped_ends_its_step_and_leaves_the_rest_to_others(place: Place) -> None:
    async with place.opened() as app, worker(place) as first:
        await synced(app)
        run = await app.submit("waits", {"item": "a"})
        await place.line("begun", "a", 0)
        ending = asyncio.create_task(first.end())
        async with worker(place) as second:
            (place.root / "go").touch()
            assert await ending == 0, first.notes
            await until_it_is(app, run.id, "done")
            assert (await place.line("ended", "a", 0))["pid"] == first.pid
            assert (await place.line("ended", "a", 2))["pid"] == second.pid
    assert set(place.counted("begun").values()) == {1}


async def test_runs_are_cancelled_and_retried_wherever_they_are(place: Place) -> None:
    async with place.opened() as app:
        await synced(app)
        waiting = await app.submit("three", {"item": "a"})
        await app.runner.cancel(waiting, "not needed")
        cancelled = await until_it_is(app, waiting.id, "cancelled")
        assert cancelled.error == {"category": "cancelled", "message": "not needed"}
        running, failed = await app.submit("waits", {"item": "b"}), await app.submit("needing", {"item": "c"})
        limited = await app.submit("waits", {"item": "d"}, queue="short")
        async with worker(place):
            await place.line("begun", "b", 0)
            await app.runner.cancel(await until_it_is(app, running.id, "running"), "not needed")
            assert "there is no such file yet" in str((await until_it_is(app, failed.id, "failed")).error)
            assert "within 0.5 s" in str((await until_it_is(app, limited.id, "failed")).error)
            (place.root / "fixed").touch()
            (place.root / "go").touch()
            for run in (waiting, running, failed, limited):
                assert await app.runner.submissions.retry(run.id) is None
            for run in (waiting, running, failed, limited):
                await until_it_is(app, run.id, "done")
        with pytest.raises(ClientError, match="is done"):
            await app.runner.submissions.retry(failed.id)
        _, _, nodes = await app.flows.trace(failed.id)
        assert [(node.node, node.error is None) for node in nodes] == [
            ("n0", True),
            ("n1", False),
            ("n1", True),
        ]
    assert place.counted("begun")["c", 0] == 1
    assert place.counted("begun")["c", 99] == 2
    assert place.counted("ended")["b", 2] == 1


async def test_what_cannot_be_submitted_is_said_at_once(place: Place) -> None:
    async with place.opened() as app:
        await synced(app)
        with pytest.raises(NotFoundError) as unknown:
            await app.submit("three", {"item": "a"}, queue="smal")
        assert unknown.value.hint == "did you mean 'small'?"
        for _ in range(2):
            await app.submit("three", {"item": "a"}, queue="small")
        with pytest.raises(BusyError, match="is full: 2 runs wait, and 2 may"):
            await app.submit("three", {"item": "a"}, queue="small")
        with pytest.raises(FlowError, match="written in Python"):
            await app.submit(Flow(BaseNode(), name="own"))
    (place.root / "spindle.toml").write_text('[engine]\nkind = "local"\n')
    async with place.opened() as app:
        with pytest.raises(ConfigurationError) as refused:
            await app.submit("three", {"item": "a"})
        assert "spindle-tools[durable]" in str(refused.value.hint)
        assert await app.store.runs(limit=10, status="queued") != []
        assert [run.queue for run in await app.store.runs(limit=10)] == ["small", "small"]
