"""What every store must do for schedules."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from contract.openers import OPENERS, SHARED
from spindle.domain.identity import Principal
from spindle.domain.run import Run, RunEvent
from spindle.domain.schedule import Schedule
from spindle.ports.schedule_store import ScheduleStore
from spindle.ports.store import Store

ANN = Principal("ann", frozenset({"staff"}))


def a_schedule(name: str = "nightly", **fields: object) -> Schedule:
    values: dict[str, object] = {
        "cron": "0 3 * * *", "zone": "Europe/Berlin", "catch_up": 2, "principal": ANN, "created_at": 1.0,
        "next_at": 100.0, "sealed": b"\x00sealed\xff", **fields,
    }  # fmt: skip
    return Schedule(name, "report", **values)  # pyright: ignore[reportArgumentType]


def its_run(id: str) -> tuple[Run, RunEvent]:
    run = Run("report", "flow", ANN, "queued", 1.0, 1.0, id=id, queue="default", turn=1)
    return run, RunEvent(id, "started", 1.0, sealed=b"given")


@pytest.fixture(params=list(OPENERS))
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    opened = await OPENERS[request.param](request)
    yield opened
    await opened.close()


async def test_a_schedule_is_kept_as_it_is(store: Store) -> None:
    assert isinstance(store, ScheduleStore)
    whole = a_schedule(last_at=50.0, last_run="r0", error={"category": "permission", "message": "no"})
    assert await store.add_schedule(whole)
    assert await store.schedule("nightly") == whole
    assert not await store.add_schedule(a_schedule(next_at=1.0))
    assert await store.add_schedule(a_schedule("hourly", cron=None, every=3600.0, next_at=50.0))
    assert [found.name for found in await store.schedules()] == ["hourly", "nightly"]
    assert await store.remove_schedule("nightly")
    assert not await store.remove_schedule("nightly")
    assert await store.schedule("nightly") is None


async def test_those_that_are_not_paused_come_in_the_order_of_their_ticks(store: Store) -> None:
    for name, next_at in (("late", 300.0), ("soon", 100.0), ("later", 200.0)):
        await store.add_schedule(a_schedule(name, next_at=next_at, paused=name == "later"))
    assert [found.name for found in await store.next_schedules(10)] == ["soon", "late"]
    assert [found.name for found in await store.next_schedules(1)] == ["soon"]


async def test_a_tick_is_taken_once_with_its_run(store: Store) -> None:
    known = a_schedule()
    await store.add_schedule(known)
    run, started = its_run("r1")
    assert await store.change_schedule(replace(known, next_at=200.0, last_run="r1"), run, [started])
    other, began = its_run("r2")
    assert not await store.change_schedule(replace(known, next_at=200.0, last_run="r2"), other, [began])
    assert await store.run("r2") is None
    assert await store.history("r2") == []
    found = await store.schedule("nightly")
    assert found is not None
    assert (found.next_at, found.last_run, found.version) == (200.0, "r1", 2)
    assert await store.queued("default") == 1
    assert [event.sealed for event in await store.history("r1")] == [b"given"]
    await store.remove_schedule("nightly")
    assert not await store.change_schedule(found, other, [began])


@pytest.mark.parametrize("opener", SHARED)
async def test_of_many_who_take_a_tick_at_once_one_does(opener: str, request: pytest.FixtureRequest) -> None:
    stores = [await OPENERS[opener](request) for _ in range(3)]
    try:
        known = a_schedule()
        await stores[0].add_schedule(known)
        for tick in range(5):

            async def take(store: Store, number: int, known: Schedule = known, tick: int = tick) -> bool:
                run, started = its_run(f"r{tick}-{number}")
                return await store.change_schedule(replace(known, next_at=float(tick)), run, [started])

            taken = await asyncio.gather(*(take(store, n) for n, store in enumerate(stores * 3)))
            assert sum(taken) == 1
            known = replace(known, version=known.version + 1)
        assert len(await stores[1].runs(limit=100)) == 5
    finally:
        for store in stores:
            await store.close()


async def test_all_who_share_a_store_have_one_clock(store: Store) -> None:
    first = await store.time()
    second = await store.time()
    assert first <= second < first + 60
