"""The time limit of an attempt."""

from __future__ import annotations

import asyncio

import pytest

from spindle.calls.deadlines import Deadline
from spindle.timers import Timers


def limit(seconds: float, timers: Timers | None = None) -> Deadline:
    task = asyncio.current_task()
    assert task is not None
    return Deadline(timers or Timers(), task, seconds)


async def forever() -> None:
    await asyncio.Event().wait()


async def test_what_takes_longer_ends_with_a_timeout() -> None:
    deadline = limit(0.01)
    with pytest.raises(TimeoutError), deadline:
        await forever()
    assert deadline.expired
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0, "the task goes on"


async def test_what_ends_in_time_is_left_alone_and_leaves_nothing_behind() -> None:
    timers = Timers()
    with limit(0.01, timers):
        pass
    ended = asyncio.Event()
    asyncio.get_running_loop().call_later(0.03, ended.set)
    await ended.wait()
    assert len(timers) == 0


async def test_a_task_that_somebody_else_cancels_is_cancelled() -> None:
    entered = asyncio.Event()

    async def work() -> None:
        with limit(30):
            entered.set()
            await forever()

    task = asyncio.create_task(work())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_limit_stands_still_until_it_is_set_again() -> None:
    async def work(deadline: Deadline) -> None:
        deadline.reschedule(None)
        waited = asyncio.Event()
        asyncio.get_running_loop().call_later(0.05, waited.set)
        await waited.wait()
        assert not deadline.expired
        deadline.reschedule(0.01)
        await forever()

    deadline = limit(0.01)
    with pytest.raises(TimeoutError), deadline:
        await work(deadline)


async def test_a_limit_that_was_left_cannot_be_set_again() -> None:
    deadline = limit(0.01)
    with deadline:
        pass
    deadline.reschedule(0.0)
    waited = asyncio.Event()
    asyncio.get_running_loop().call_later(0.02, waited.set)
    await waited.wait()
    assert not deadline.expired
