"""Flows that are submitted at times: ticks that come, are missed and made up for, and are refused."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import spindle
from spindle.app import Spindle
from spindle.calls.options import CallOptions
from spindle.domain.identity import LOCAL, Principal
from spindle.domain.run import Run
from spindle.domain.tool import Tool
from spindle.errors import (
    ConfigurationError,
    InvalidArgumentsError,
    NotFoundError,
    SpindleError,
)
from spindle.serving.working import work
from spindle.stores.sqlite import SqliteStore

ANN = Principal("ann")
NOON = 1_800_000_000.0
TOOLS = '''
from spindle import tool

@tool(idempotent=True)
def count(text: str) -> int:
    """Count words."""
    return len(text.split())
'''
FLOW = """
inputs: {text: {type: string}}
nodes:
- {id: words, tool: count, params: {text: "${text}"}}
"""
SETTINGS = "[engine.queues.short]\nlimit = 1\n"


@dataclass
class World:
    """A workspace whose clock is set by hand."""

    root: Path
    now: float = NOON
    barred: set[str] = field(default_factory=set[str])
    notes: list[str] = field(default_factory=list[str])

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[Spindle]:
        store = await SqliteStore(self.root / "state.db", wall=lambda: self.now).open()
        async with spindle.open(self.root, store=store, permission=self._may) as app:
            await app.sync()
            yield app

    def _may(self, principal: Principal, _tool: Tool, /) -> bool:
        return principal.id not in self.barred

    async def at(self, app: Spindle, seconds: float) -> float:
        """Sets the clock to so long after noon, and lets a worker look. Returns when it would again."""
        self.now = NOON + seconds
        return await app.flows.schedules.look(self.notes.append)


@pytest.fixture
def world(tmp_path: Path) -> World:
    for name, text in {
        "spindle.toml": SETTINGS, "tools/words.py": TOOLS, "flows/report.yaml": FLOW,
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return World(tmp_path)


@pytest.fixture
async def app(world: World) -> AsyncIterator[Spindle]:
    async with world.opened() as opened:
        yield opened


async def runs(app: Spindle) -> list[Run]:
    return await app.store.runs(limit=-1)


async def last(app: Spindle, name: str = "often") -> tuple[float | None, bool, str | None]:
    """When the last tick was, seconds after noon, if it has a run, and the kind of its error."""
    found = await app.flows.schedules.find(name)
    at = None if found.last_at is None else found.last_at - NOON
    return at, found.last_run is not None, found.error and str(found.error["category"])


async def often(app: Spindle, every: float = 10, **rest: object) -> None:
    options = CallOptions(rest.pop("principal", LOCAL))  # pyright: ignore[reportArgumentType]
    add = app.flows.schedules.add
    await add("often", "report", {"text": "a b"}, options, every=every, **rest)  # pyright: ignore[reportArgumentType]


async def test_each_tick_has_one_run_however_many_look(world: World, app: Spindle) -> None:
    await often(app)
    assert await world.at(app, 9) == 1
    assert await runs(app) == []
    async with world.opened() as other:
        for seconds in (10, 20, 20.5, 30):
            world.now = NOON + seconds
            await asyncio.gather(
                *(each.flows.schedules.look(world.notes.append) for each in (app, other, app, other))
            )
    assert len(await runs(app)) == 3
    assert await last(app) == (30, True, None)
    assert {run.status for run in await runs(app)} == {"queued"}
    assert world.notes == []


async def test_ticks_that_were_missed_are_skipped_and_said(world: World, app: Spindle) -> None:
    await often(app)
    await world.at(app, 3600.5)
    # Those of the last minute are late, not missed.
    assert len(await runs(app)) == 6
    assert "missed from 2027-01-15T08:00:10" in world.notes[0]
    (found,) = await app.flows.schedules.all()
    assert found.next_at == NOON + 3610


async def test_a_rare_tick_that_was_missed_stands_in_the_list(world: World, app: Spindle) -> None:
    await often(app, every=7200)
    await world.at(app, 7300)
    assert await runs(app) == []
    assert await last(app) == (7200, False, "missed")


async def test_as_many_missed_ticks_are_made_up_for_as_it_says(world: World, app: Spindle) -> None:
    await often(app, every=600, catch_up=3)
    await world.at(app, 6010)
    assert len(await runs(app)) == 4  # three that were missed, and the one of ten seconds ago
    await world.at(app, 6020)
    assert len(await runs(app)) == 4


async def test_a_year_of_missed_seconds_takes_no_time(world: World, app: Spindle) -> None:
    add = app.flows.schedules.add
    await add("seconds", "report", {"text": "a"}, cron="* * * * * *", catch_up=5)
    async with asyncio.timeout(20):
        await world.at(app, 365 * 86400)
    # Three worker processes would have at most these 66 between them.
    assert 60 <= len(await runs(app)) <= 66


async def test_a_clock_that_is_set_back_repeats_no_tick(world: World, app: Spindle) -> None:
    await often(app)
    for seconds in (10, 20):
        await world.at(app, seconds)
    assert len(await runs(app)) == 2
    assert await world.at(app, -3600) == 1
    for seconds in (10, 20):
        await world.at(app, seconds)
    assert len(await runs(app)) == 2
    await world.at(app, 30)
    assert len(await runs(app)) == 3


async def test_paused_ticks_do_not_come_and_are_not_made_up_for(world: World, app: Spindle) -> None:
    await often(app, every=600, catch_up=100)
    assert (await app.flows.schedules.pause("often")).paused
    await world.at(app, 6000)
    assert await runs(app) == []
    resumed = await app.flows.schedules.resume("often")
    assert resumed.next_at == NOON + 6600
    await world.at(app, 6600)
    assert len(await runs(app)) == 1
    run = await app.flows.schedules.run("often")
    assert run.status == "queued"
    assert await last(app) == (6600, True, None)
    await app.flows.schedules.remove("often")
    with pytest.raises(NotFoundError):
        await app.flows.schedules.run("often")
    assert len(await runs(app)) == 2


async def test_it_acts_for_whoever_added_it_as_long_as_they_may(world: World, app: Spindle) -> None:
    world.barred.add("ann")
    with pytest.raises(SpindleError, match="may not call"):
        await often(app, principal=ANN)
    world.barred.clear()
    await often(app, principal=ANN)
    await world.at(app, 10)
    world.barred.add("ann")
    await world.at(app, 20)
    assert await last(app) == (20, False, "flow")
    (found,) = await app.flows.schedules.all()
    assert found.error is not None
    assert "'ann' may not call count" in str(found.error["message"])
    assert "its tick was refused" in world.notes[0]
    assert [run.principal for run in await runs(app)] == [ANN]
    with pytest.raises(SpindleError, match="may not call"):
        await app.flows.schedules.run("often")
    world.barred.clear()
    await world.at(app, 30)
    assert await last(app) == (30, True, None)


async def test_a_flow_is_read_anew_and_one_that_is_gone_is_seen(world: World, app: Spindle) -> None:
    await often(app)
    file = world.root / "flows" / "report.yaml"
    file.unlink()
    await world.at(app, 10)
    assert await last(app) == (10, False, "not_found")
    file.write_text(FLOW)
    await world.at(app, 20)
    assert await last(app) == (20, True, None)


async def test_a_full_queue_refuses_the_tick_and_others_tick(world: World, app: Spindle) -> None:
    await often(app, queue="short")
    await app.flows.schedules.add("other", "report", {"text": "x"}, every=10)
    await world.at(app, 10)
    await world.at(app, 20)
    assert await last(app) == (20, False, "rate_limited")
    assert await last(app, "other") == (20, True, None)


async def test_inputs_are_not_in_the_store_in_clear(world: World, app: Spindle) -> None:
    add = app.flows.schedules.add
    await add("one", "report", {"text": "c0ffee-secret"}, every=10)
    await add("two", "count --text=c0ffee-secret", every=10)
    await world.at(app, 10)
    assert len(await runs(app)) == 2
    for part in world.root.rglob("*"):
        assert not part.is_file() or b"c0ffee" not in part.read_bytes(), part


@pytest.mark.parametrize(
    ("flow", "inputs", "rest", "error"),
    [
        ("reprot", {"text": "a"}, {"every": 10}, NotFoundError),
        ("report", {}, {"every": 10}, InvalidArgumentsError),
        ("report", {"text": 3}, {"every": 10}, InvalidArgumentsError),
        ("report", {"text": "a", "more": 1}, {"every": 10}, InvalidArgumentsError),
        ("flows/report.yaml", {"text": "a"}, {"every": 10}, InvalidArgumentsError),
        ("report", {"text": "a"}, {}, InvalidArgumentsError),
        ("report", {"text": "a"}, {"every": 10, "cron": "* * * * *"}, InvalidArgumentsError),
        ("report", {"text": "a"}, {"every": 10, "catch_up": 1001}, InvalidArgumentsError),
        ("report", {"text": "a"}, {"every": 10, "queue": "mail"}, NotFoundError),
    ],
)
async def test_what_could_not_tick_is_refused(
    app: Spindle, flow: str, inputs: dict[str, object], rest: dict[str, object], error: type[SpindleError]
) -> None:
    with pytest.raises(error):
        await app.flows.schedules.add("x", flow, inputs, **rest)  # pyright: ignore[reportArgumentType]
    assert await app.flows.schedules.all() == []


@pytest.mark.parametrize("name", ["", "a b", "../x", "x" * 101, "-x", "ä"])
async def test_a_name_must_be_plain(app: Spindle, name: str) -> None:
    with pytest.raises(InvalidArgumentsError, match="cannot be called"):
        await app.flows.schedules.add(name, "report", {"text": "a"}, every=10)


async def test_without_an_engine_it_is_refused_with_the_line_to_install(world: World) -> None:
    (world.root / "spindle.toml").write_text('[engine]\nkind = "local"\n')
    async with world.opened() as app:
        with pytest.raises(ConfigurationError) as refused:
            await often(app)
    assert "pip install 'spindle-tools[durable]'" in str(refused.value.hint)


async def test_a_tick_that_dies_before_the_engine_hears_of_it_is_executed(
    world: World, app: Spindle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is stored with the tick: a worker finds it, as it does any other."""
    await often(app)

    async def dies(*_: object) -> None:
        raise OSError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(app.runner.submissions, "hand_to_engine", dies)
        await world.at(app, 10)
    assert "could not be taken: OSError('killed')" in world.notes[0]
    await world.at(app, 11)
    (run,) = await runs(app)
    monkeypatch.setattr("spindle.runs.submissions.HANDED_OVER", 0.0)
    assert await app.runner.submissions.recover() == 1
    assert await until_ended(app, run.id) == "done"


async def until_ended(app: Spindle, id: str) -> str:
    await asyncio.wait_for(work(app, ["default"], None, lambda _: None, until_empty=True), 60)
    found = await app.store.run(id)
    assert found is not None
    return found.status


async def test_a_worker_that_ends_when_nothing_waits_takes_the_ticks_that_have_come(
    world: World, app: Spindle
) -> None:
    await often(app, every=600, catch_up=2)
    world.now = NOON + 1300
    await asyncio.wait_for(work(app, ["default"], None, world.notes.append, until_empty=True), 60)
    assert [run.status for run in await runs(app)] == ["done", "done"]
