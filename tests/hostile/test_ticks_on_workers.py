"""A schedule of every second on three workers, of which one is killed again and again: each tick has one run.
`make test-rest` and `make soak` do the same for a minute."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import signal
from pathlib import Path

import pytest

from hostile.conftest import Figures
from servers.running import PATIENCE
from servers.workers import flow, until_it_is, worker, workspace
from spindle.domain.json_schema import to_json

CONCURRENCY = 10
"""Runs that a worker executes at once, if nothing is said."""


async def each_tick_once(tmp_path: Path, store: str, ticks: int) -> str:
    place = workspace(tmp_path, store)
    place.save("one", flow(1))
    kills = 0
    async with place.opened() as app, contextlib.AsyncExitStack() as stack:
        await app.sync()
        workers = [await stack.enter_async_context(worker(place)) for _ in range(3)]
        schedules = app.flows.schedules
        made = await schedules.add("seconds", "one", {"item": "x"}, cron="* * * * * *", catch_up=100)
        end = made.next_at + ticks
        turn = itertools.cycle(range(3))
        async with asyncio.timeout(ticks + PATIENCE):
            while (await schedules.find("seconds")).next_at < end:
                await asyncio.sleep(2.5)
                number = next(turn)
                await workers[number].end(signal.SIGKILL)
                kills += 1
                workers[number] = await stack.enter_async_context(worker(place))
        paused = await schedules.pause("seconds")
        times = [made.next_at + second for second in range(int(paused.next_at - made.next_at))]
        assert times[-1] == paused.last_at
        expected = [hashlib.sha256(to_json([made.id, time])).hexdigest()[:32] for time in times]
        for id in expected:
            ended = await until_it_is(app, id, "done", "failed", "cancelled")
            assert ended.status == "done", ended.error
        runs = await app.store.runs(limit=-1)
        assert {run.id for run in runs} == set(expected)
        late = sorted(run.created_at - time for run, time in zip(reversed(runs), times, strict=True))
    steps = sum(place.counted("ended").values())
    # A step in flight when its worker is killed is made again.
    assert len(expected) <= steps <= len(expected) + kills * CONCURRENCY
    return (
        f"{len(expected)} ticks, {kills} workers killed: {len(runs)} runs; a tick's run was stored"
        f" {late[len(late) // 2]:.3f} s after its time (median), {late[-1]:.2f} s at the latest"
    )


async def test_a_schedule_of_every_second_on_three_workers_ticks_once_a_second(
    tmp_path: Path, postgres_url: str
) -> None:
    print(await each_tick_once(tmp_path, postgres_url, 8))


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_a_minute_of_ticks_with_workers_that_die(
    tmp_path: Path, postgres_url: str, figures: Figures
) -> None:
    figures(await each_tick_once(tmp_path, postgres_url, 60))
