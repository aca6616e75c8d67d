"""Timers that share one of the loop's."""

from __future__ import annotations

import asyncio

from spindle.timers import MAX_UNUSED, Timer, Timers


class Bell(Timer):
    def __init__(self, seconds: float, rung: list[str], name: str) -> None:
        super().__init__(seconds)
        self._rung = rung
        self._name = name
        self.heard = asyncio.Event()

    def ring(self) -> None:
        self._rung.append(self._name)
        self.heard.set()


async def test_timers_of_one_length_ring_in_the_order_in_which_they_were_set() -> None:
    timers, rung = Timers(), list[str]()
    bells = [Bell(0.01, rung, str(number)) for number in range(5)]
    for bell in bells:
        timers.start(bell)
    await bells[-1].heard.wait()
    assert rung == ["0", "1", "2", "3", "4"]
    assert len(timers) == 0, "nothing is kept once all have rung"


async def test_a_timer_that_was_stopped_does_not_ring_and_holds_up_nobody() -> None:
    timers, rung = Timers(), list[str]()
    first, second, shorter = Bell(0.02, rung, "first"), Bell(0.02, rung, "second"), Bell(0.01, rung, "short")
    for bell in (first, second, shorter):
        timers.start(bell)
    first.stop()
    first.stop()
    await second.heard.wait()
    assert rung == ["short", "second"]


async def test_a_timer_set_later_rings_later_though_it_shares_the_first_ones_place() -> None:
    timers, rung = Timers(), list[str]()
    loop = asyncio.get_running_loop()
    first, later = Bell(0.05, rung, "first"), Bell(0.05, rung, "later")
    timers.start(first)
    await asyncio.wait({asyncio.ensure_future(first.heard.wait())}, timeout=0.02)
    began = loop.time()
    timers.start(later)
    await later.heard.wait()
    assert rung == ["first", "later"]
    assert loop.time() - began > 0.04


async def test_lengths_that_are_used_once_do_not_add_up() -> None:
    timers, rung = Timers(), list[str]()
    for number in range(10_000):
        bell = Bell(30 + number / 1000, rung, "never")
        timers.start(bell)
        bell.stop()
    assert len(timers) <= MAX_UNUSED + 1
