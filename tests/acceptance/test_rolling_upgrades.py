"""Two versions at once: of a flow, of what a run may say, and of the store's form, while workers execute."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import psycopg
import pytest

from servers.running import PATIENCE
from servers.workers import Place, WorkerProcess, flow, until_it_is, worker, workspace
from spindle.app import Spindle
from spindle.calls.options import DEFAULT_OPTIONS
from spindle.runs.placing import Placing
from spindle.runs.submissions import LEFT
from spindle.serving.working import work
from spindle.stores.postgres.address import parse

FIRST = """
inputs: {item: {type: string}}
nodes:
- {id: n0, tool: count, params: {item: "${item}", step: 0}}
- {id: n1, tool: count, params: {item: "${item}", step: 1}, approval: required}
- {id: n2, tool: count, params: {item: "${item}", step: 2, until: go}}
edges: [{from: n0, to: n1}, {from: n1, to: n2}]
"""
SECOND = """
inputs: {item: {type: string}}
nodes: [{id: other, tool: count, params: {item: "${item}", step: 7}}]
"""
SETTINGS = "[engine.queues.later]\nconcurrency = 2\n"


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    store = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    return workspace(tmp_path, store, SETTINGS)


async def answered(app: Spindle, run: str) -> None:
    await until_it_is(app, run, "paused")
    (pause,) = await app.pauses(run=run)
    await app.resume(pause.token, True)


async def noted(process: WorkerProcess, words: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while not any(words in line for line in process.notes):
            await asyncio.sleep(0.02)


async def test_a_run_goes_on_with_the_definition_that_it_began_with(tmp_path: Path) -> None:
    place = workspace(tmp_path, None, SETTINGS)
    file = place.root / "flows" / "edited.yaml"
    file.write_text(FIRST)
    async with place.opened() as app, worker(place, "--queue", "default"):
        await app.sync()
        paused = await app.submit("edited", {"item": "paused"})
        middle = await app.submit("edited", {"item": "middle"})
        queued = await app.submit("edited", {"item": "queued"}, queue="later")
        await answered(app, middle.id)
        await place.line("begun", "middle", 2)
        await until_it_is(app, paused.id, "paused")
        file.write_text(SECOND)
        new = await app.submit("edited", {"item": "new"})
        await until_it_is(app, new.id, "done")
        (place.root / "go").touch()
        await answered(app, paused.id)
        async with worker(place, "--queue", "later"):
            await answered(app, queued.id)
            for run in (paused, middle, queued):
                await until_it_is(app, run.id, "done")
    made = {(item, step) for item in ("paused", "middle", "queued") for step in range(3)}
    assert set(place.counted("ended")) == made | {("new", 7)}
    assert set(place.counted("begun").values()) == {1}


async def test_a_worker_leaves_runs_that_it_does_not_understand_to_others_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = workspace(tmp_path, None, SETTINGS)
    place.save("one", flow(1))
    async with place.opened() as app, worker(place) as older:
        await app.sync()
        submissions = app.runner.submissions
        unknown = await submissions.submit("dance", "tango", {}, DEFAULT_OPTIONS, Placing())
        await noted(older, "such runs are left to other workers; upgrade this one")
        assert (await until_it_is(app, unknown.id, "queued")).error is None
        with monkeypatch.context() as newer:
            newer.setattr("spindle.runs.submissions.RECORD", 2)
            run = await app.submit("one", {"item": "newer"})
            newer.setattr("spindle.runs.submissions.RECORD", 1)
            usual = await app.submit("one", {"item": "usual"})
            await until_it_is(app, usual.id, "done")
            newer.setattr("spindle.runs.submissions.RECORD", 2)
            async with asyncio.timeout(PATIENCE):
                while (await until_it_is(app, run.id, "queued", "running")).turn == 1:
                    await asyncio.sleep(0.02)
            assert place.counted("begun").keys() == {("usual", 0)}
            await older.end()
            task = asyncio.create_task(work(app, ["default"], None, lambda text: None))
            try:
                await until_it_is(app, run.id, "done", patience=PATIENCE + LEFT)
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
    assert place.counted("ended") == {("usual", 0): 1, ("newer", 0): 1}


def changed_by_a_newer_one(place: Place, by: int) -> None:
    """As a migration of a later version would: a column more, and a number."""
    if place.store is None:
        with sqlite3.connect(place.root / ".spindle" / "state.db") as db:
            if by > 0:
                db.execute("ALTER TABLE runs ADD COLUMN future TEXT")
            version = db.execute("PRAGMA user_version").fetchone()[0]
            db.execute(f"PRAGMA user_version = {version + by}")
        db.close()
        return
    address = parse(place.store)
    with psycopg.connect(address.conninfo, autocommit=True) as connection:
        if by > 0:
            connection.execute(f'ALTER TABLE "{address.schema}".runs ADD COLUMN future TEXT'.encode())
        connection.execute(
            f"UPDATE \"{address.schema}\".meta SET value = value + %s WHERE key = 'schema_version'".encode(),
            (by,),
        )


async def test_workers_end_when_a_newer_version_has_migrated_the_store(place: Place) -> None:
    place.save("waits", flow(3, until="go"))
    async with place.opened() as app, worker(place) as older:
        await app.sync()
        run = await app.submit("waits", {"item": "a"})
        await place.line("begun", "a", 0)
        changed_by_a_newer_one(place, by=1)
        (place.root / "go").touch()
        assert await older.ended() != 0
        said = "".join(older.notes)
        assert "the state was written by a newer Spindle" in said
        assert "upgrade Spindle" in said
        assert "Traceback" not in said
        changed_by_a_newer_one(place, by=-1)  # who knows this form, goes on
        async with worker(place):
            await until_it_is(app, run.id, "done")
    assert place.counted("begun") == {("a", step): 1 for step in range(3)}
