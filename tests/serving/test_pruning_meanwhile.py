"""The state of a workspace is pruned while it is served."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

import spindle
from spindle.domain.call import CallRecord
from spindle.errors import ConfigurationError, StoreError
from spindle.serving.pruning import LEASE, LEASE_NAME, BackgroundPruning, pruned_meanwhile
from spindle.settings import Settings
from spindle.stores.open import open_store


def a_record(number: int) -> CallRecord:
    return CallRecord(f"k{number}", "a.b", "a", "ann", {}, "ok", time.time(), 0.1, 1)


def settings(root: Path, **retention: Any) -> Settings:
    return Settings(root, {"retention": {"calls": {"count": 3}, **retention}})


class Waits:
    """A sleep that the test ends."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.asked, self.over = asyncio.Event(), asyncio.Event()

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self.asked.set()
        await self.over.wait()
        self.over.clear()

    async def turn(self) -> None:
        await self.asked.wait()
        self.asked.clear()
        self.over.set()
        await self.asked.wait()


async def test_what_is_over_the_limits_goes_now_and_then(tmp_path: Path) -> None:
    async with spindle.open(settings=settings(tmp_path, every=100)) as app:
        for number in range(9):
            await app.store.save_call(a_record(number))
        waits = Waits()
        task = asyncio.create_task(BackgroundPruning(app, pytest.fail, waits).run())
        await waits.turn()
        assert len(await app.history()) == 3
        app.settings = settings(tmp_path, every=100, background=False)
        await app.store.save_call(a_record(10))
        await waits.turn()
        task.cancel()
        assert len(await app.history()) == 4
        assert all(75 <= seconds <= 125 for seconds in waits.seconds)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_of_two_processes_one_prunes_at_a_time(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    address = request.getfixturevalue("postgres_url") if kind == "postgres" else str(tmp_path / "state.db")
    async with (
        spindle.open(settings=settings(tmp_path), store=await open_store(address)) as one,
        spindle.open(settings=settings(tmp_path), store=await open_store(address)) as other,
    ):
        for number in range(9):
            await one.store.save_call(a_record(number))
        assert await other.store.acquire(LEASE_NAME, "somebody else", LEASE)
        assert not await BackgroundPruning(one, pytest.fail).prune_once()
        assert len(await one.history()) == 9
        await other.store.release(LEASE_NAME, "somebody else")
        assert await BackgroundPruning(other, pytest.fail).prune_once()
        assert await BackgroundPruning(one, pytest.fail).prune_once()
        assert len(await one.history()) == 3


async def test_a_store_that_fails_is_said_once_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with spindle.open(settings=settings(tmp_path)) as app:
        notes: list[str] = []

        async def failing(*_: Any) -> Any:
            raise StoreError("the disk is full")

        monkeypatch.setattr(app.store, "entries", failing)
        waits = Waits()
        task = asyncio.create_task(BackgroundPruning(app, notes.append, waits).run())
        await waits.turn()
        await waits.turn()
        monkeypatch.undo()
        for number in range(9):
            await app.store.save_call(a_record(number))
        await waits.turn()
        task.cancel()
        assert notes == ["the state could not be pruned: the disk is full"]
        assert len(await app.history()) == 3


async def test_a_mistake_in_the_settings_stops_the_start(tmp_path: Path) -> None:
    async with spindle.open(settings=settings(tmp_path, calls={"age": "soon"})) as app:
        with pytest.raises(ConfigurationError, match=r"retention.calls.age.*90d"):
            async with pruned_meanwhile(app, pytest.fail):
                pass
