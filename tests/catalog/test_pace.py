"""A source that speaks all the time is listened to at a pace."""

from __future__ import annotations

import asyncio

from spindle.catalog.pace import LONGEST, SHORTEST, Pace, Refreshes
from spindle.sources.mcp.notices import MAX_KEYS, UPDATED, PacedNotices


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_storm_is_slowed_more_and_more_and_a_quiet_time_begins_anew() -> None:
    clock = Clock()
    pace = Pace(now=clock)
    times = []
    while clock.now < 600:
        clock.now += pace.wait()
        pace.happened()
        times.append(clock.now)
    assert times[:5] == [0.0, SHORTEST, 3 * SHORTEST, 7 * SHORTEST, 15 * SHORTEST]
    assert sum(time < 10 for time in times) == 5
    assert times[-1] - times[-2] == LONGEST
    clock.now += 3 * LONGEST
    assert pace.wait() == 0
    pace.happened()
    assert pace.wait() == SHORTEST


async def test_a_storm_of_notices_causes_few_refreshes_and_misses_no_change() -> None:
    state, seen = 0, []

    async def refresh(name: str) -> None:
        await asyncio.sleep(0)
        seen.append(state)

    refreshes = Refreshes(refresh)
    for state in range(1, 20_001):
        refreshes.want("s")
        if state % 100 == 0:
            await asyncio.sleep(0)
    while seen[-1:] != [20_000]:
        assert refreshes.tasks or refreshes._timers
        await asyncio.sleep(0.01)
    assert len(seen) <= 3


async def test_a_source_with_other_settings_is_refreshed_at_once() -> None:
    seen: list[str] = []

    async def refresh(name: str) -> None:
        seen.append(name)

    refreshes = Refreshes(refresh)
    for _ in range(2):
        refreshes.want("s")
        while refreshes.tasks:
            await asyncio.sleep(0)
    assert seen == ["s"]
    refreshes.want_now("s")
    while refreshes.tasks:
        await asyncio.sleep(0)
    assert seen == ["s", "s"]
    refreshes.want("s")
    assert refreshes.stop() == []
    assert not refreshes._timers


async def test_notices_in_a_storm_are_passed_on_few_and_the_last_is_kept() -> None:
    passed: list[tuple[str, str]] = []
    notices = PacedNotices(lambda method, params, whose: passed.append((method, whose)))
    for _ in range(10_000):
        notices.tell("notifications/prompts/list_changed", {}, "ann")
        notices.tell("notifications/prompts/list_changed", {}, "bob")
    assert passed == [("notifications/prompts/list_changed", who) for who in ("ann", "bob")]
    notices.flush()
    assert len(passed) == 4
    assert not notices._waiting


async def test_notices_of_endless_resources_take_bounded_room() -> None:
    passed = 0

    def count(*_: object) -> None:
        nonlocal passed
        passed += 1

    notices = PacedNotices(count)
    for _ in range(2):
        for number in range(3 * MAX_KEYS):
            notices.tell(UPDATED, {"uri": f"file:///{number}"}, "ann")
    assert passed >= 3 * MAX_KEYS
    assert len(notices._waiting) <= MAX_KEYS
    assert len(notices._paces) <= MAX_KEYS
    notices.flush()
