"""What every store must do so that what it keeps can be pruned."""

from __future__ import annotations

import asyncio
from typing import Any

from contract.test_run_store_contract import a_pause, a_run, paused
from spindle.domain.call import CallRecord, Result
from spindle.domain.run import RunEvent
from spindle.ports.store import RecordKind, Store, StoredEntry
from spindle.stores import sql_retention


def a_record(key: str, at: float = 1.0, size: int = 1) -> CallRecord:
    return CallRecord(key, "a.b", "a", "ann", {"text": "x" * size}, "ok", at, 0.1, 1)


async def every_entry(store: Store, kind: RecordKind, page: int = 2) -> list[StoredEntry]:
    found: list[StoredEntry] = []
    while more := await store.entries(kind, found[-1] if found else None, page):
        found += more
    return found


async def test_records_are_gone_through_from_the_newest_page_by_page(store: Store) -> None:
    for number in range(5):
        await store.save_call(a_record(f"k{number}", at=float(number), size=1000 * number))
    found = await every_entry(store, "calls")
    assert [entry.at for entry in found] == [4.0, 3.0, 2.0, 1.0, 0.0]
    assert 4000 <= found[0].size <= 5000
    assert all(entry.may_go for entry in found)


async def test_records_that_are_removed_are_gone_and_the_others_stay(store: Store) -> None:
    for number in range(5):
        await store.save_call(a_record(f"k{number}"))
    oldest = (await every_entry(store, "calls"))[-2:]
    removed = await store.remove("calls", [entry.key for entry in oldest])
    assert (removed.count, removed.more) == (2, False)
    assert [record.key for record in await store.calls(limit=9)] == ["k4", "k3", "k2"]
    assert (await store.remove("calls", [entry.key for entry in oldest])).count == 0


async def test_cached_results_of_one_moment_are_all_gone_through(store: Store) -> None:
    for number in range(5):
        await store.cache(f"k{number}", Result(structured=number), expires_at=20.0, now=1.0)
    await store.cache("later", Result(structured="x" * 5000), expires_at=30.0, now=1.0)
    found = await every_entry(store, "cache")
    assert [entry.key for entry in found] == ["later", "k4", "k3", "k2", "k1", "k0"]
    assert found[0].size > 5000
    assert (await store.remove("cache", ["k1", "k2"])).count == 2
    assert await store.cached("k1", now=2.0) is None
    assert await store.cached("k3", now=2.0) is not None


async def test_events_that_belong_to_no_run_go_one_by_one(store: Store) -> None:
    await store.save_run(a_run(), [RunEvent("r1", "step", 1.0, "/x", b"sealed")])
    await store.save_trace([RunEvent("trace:t1", "note", float(number), "x", b"s") for number in range(5)])
    found = await every_entry(store, "events")
    assert [entry.at for entry in found] == [4.0, 3.0, 2.0, 1.0, 0.0]
    assert (await store.remove("events", [entry.key for entry in found[2:]])).count == 3
    assert [event.at for event in await store.history("trace:t1")] == [3.0, 4.0]
    assert len(await store.history("r1")) == 1


class TestRuns:
    async def test_a_run_goes_with_its_events_and_pauses(self, store: Store) -> None:
        await store.save_run(a_run(), [RunEvent("r1", "step", 1.0, "/x", b"sealed")], [a_pause()])
        await store.save_run(a_run("r2"), [RunEvent("r2", "step", 1.0, "/x", b"sealed")])
        await store.save_run(a_run(status="done", lease=None))
        assert (await store.remove("runs", ["r1"])).count == 1
        assert await store.run("r1") is None
        assert await store.history("r1") == []
        assert await store.pauses(run="r1", waiting=False) == []
        assert len(await store.history("r2")) == 1

    async def test_a_run_that_is_paused_or_running_stays_whatever_is_asked(self, store: Store) -> None:
        await paused(store)
        await store.save_run(a_run("r2", lease=0.0), [RunEvent("r2", "step", 1.0, "/x", b"sealed")])
        for status in ("done", "failed", "cancelled"):
            await store.save_run(a_run(status, status=status))
        found = await every_entry(store, "runs")
        assert {entry.key: entry.may_go for entry in found} == {
            "r1": False, "r2": False, "done": True, "failed": True, "cancelled": True,
        }  # fmt: skip
        assert (await store.remove("runs", [entry.key for entry in found])).count == 3
        assert {run.id for run in await store.runs(limit=9)} == {"r1", "r2"}
        assert await store.pause("t1") == a_pause()
        assert len(await store.history("r2")) == 1

    async def test_a_run_with_many_events_goes_bit_by_bit_and_is_never_half_resumed(
        self, store: Store
    ) -> None:
        count = sql_retention.EVENTS_AT_ONCE + 1
        events = [RunEvent("r1", "step", 1.0, f"/{number}", b"sealed") for number in range(count)]
        await store.save_run(a_run(status="cancelled", lease=None), events)
        removed = await store.remove("runs", ["r1"])
        assert (removed.count, removed.more) == (0, True)
        assert len(await store.history("r1")) == 1
        assert not await store.take_run("r1", "p2", 20.0, 5.0)
        assert (await store.remove("runs", ["r1"])).count == 1
        assert await store.history("r1") == []


async def test_two_processes_that_remove_the_same_do_not_wait_for_each_other(
    two_stores: tuple[Store, Store],
) -> None:
    one, other = two_stores
    for number in range(300):
        await one.save_call(a_record(f"k{number}"))
        await one.cache(f"k{number}", Result(structured=1), expires_at=20.0, now=1.0)
        await one.save_run(a_run(f"r{number}", status="done"))
    kinds: tuple[RecordKind, ...] = ("calls", "cache", "runs")
    for kind in kinds:
        keys: list[Any] = [entry.key for entry in await every_entry(one, kind, 500)]
        done = await asyncio.gather(
            *(
                store.remove(kind, part)
                for part in (keys[:150], keys[150:], keys[::-1])
                for store in two_stores
            )
        )
        assert sum(removed.count for removed in done) <= 300
        await one.remove(kind, keys)
        assert await every_entry(other, kind) == []


async def test_leases_that_have_ended_are_forgotten(store: Store) -> None:
    await store.acquire("old", "p1", 0.0)
    await store.acquire("held", "p1", 1000.0)
    assert await store.forget_leases() == 1
    assert not await store.acquire("held", "p2", 1000.0)


async def test_a_store_knows_its_size(store: Store) -> None:
    before = await store.size()
    for number in range(50):
        await store.save_call(a_record(f"k{number}", size=20_000))
    assert await store.size() > before > 0


async def test_space_is_given_back_until_there_is_no_more(store: Store) -> None:
    for number in range(50):
        await store.save_call(a_record(f"k{number}", size=20_000))
    await store.remove("calls", [entry.key for entry in await every_entry(store, "calls", 99)])
    while await store.give_space_back():
        pass
    assert not await store.give_space_back(all_at_once=True)
    assert await store.calls(limit=9) == []
