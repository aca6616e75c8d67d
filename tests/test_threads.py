"""Work on what came from outside, beside the event loop and out of the collector's way."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref

import pytest

from spindle import giving_way, threads
from spindle.threads import MANY_OBJECTS, in_short_turn, in_turn, time_of_source, without_collector


class Node:
    other: Node


def test_many_new_objects_do_not_hold_up_the_next_look_at_young_ones() -> None:
    made = without_collector(lambda: [[] for _ in range(4 * MANY_OBJECTS)])
    assert gc.isenabled()
    assert len(gc.get_objects(generation=0)) < MANY_OBJECTS
    assert len(made) == 4 * MANY_OBJECTS


def test_circles_among_them_are_still_found() -> None:
    def circle() -> weakref.ref[Node]:
        one, two = Node(), Node()
        one.other, two.other = two, one
        kept = [[] for _ in range(4 * MANY_OBJECTS)]
        assert kept
        return weakref.ref(one)

    found = without_collector(circle)
    gc.collect()
    assert found() is None


def test_a_little_work_leaves_the_generations_alone() -> None:
    gc.collect()
    made = without_collector(lambda: [Node()])
    assert any(known is made[0] for known in gc.get_objects(generation=0))


async def test_what_a_call_waits_for_does_not_wait_for_a_long_document() -> None:
    released = threading.Event()
    reading = asyncio.create_task(in_turn(released.wait))
    try:
        assert await in_short_turn(lambda: "done") == "done"
        assert not reading.done()
    finally:
        released.set()
    assert await reading


class Clock:
    """Stands for `time`: the thread computes for as long as it is told to, while others have their turns."""

    def __init__(self) -> None:
        self.now = self.computed = 100.0
        self.rests: list[float] = []

    def compute(self, seconds: float, *, others: float = 0.0) -> None:
        self.computed += seconds
        self.now += seconds + others

    def perf_counter(self) -> float:
        return self.now

    def thread_time(self) -> float:
        return self.computed

    def sleep(self, seconds: float) -> None:
        self.rests.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(giving_way, "time", clock)
    return clock


def test_long_work_rests_while_others_want_to_compute_and_only_then(clock: Clock) -> None:
    with giving_way.considerate():
        for _ in range(10):
            clock.compute(0.002)
            giving_way.give_way()
        assert clock.rests == []
        for _ in range(10):
            clock.compute(0.001, others=0.001)
            giving_way.give_way()
        assert clock.rests == [giving_way.RESTS] * 10
        clock.compute(0.0001, others=0.001)
        giving_way.give_way()
        assert len(clock.rests) == 10  # it has hardly begun
    clock.compute(1, others=1)
    giving_way.give_way()
    assert len(clock.rests) == 10  # nobody asks it to any more


async def test_only_a_process_that_serves_others_gives_way(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work() -> None:
        clock.compute(1, others=1)
        giving_way.give_way()

    monkeypatch.setattr(threads, "_are_considerate", False)
    await in_turn(work)
    assert clock.rests == []
    threads.be_considerate()
    await in_turn(work)
    await in_short_turn(work)
    assert len(clock.rests) == 2


async def test_the_time_of_a_source_stands_still_while_what_it_sent_waits_for_its_turn() -> None:
    released = threading.Event()
    before = asyncio.create_task(in_turn(released.wait))
    try:
        async with asyncio.timeout(60) as limit:
            time_of_source.set(limit)
            reading = in_turn(lambda: limit.when())
            asyncio.get_running_loop().call_soon(released.set)
            assert await reading is None
            left = limit.when()
            assert left is not None
            assert left - asyncio.get_running_loop().time() <= 60
    finally:
        released.set()
        time_of_source.set(None)
    assert await before
