"""Small writes on the event loop: durable, and never in the way of a lock."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spindle.domain.call import CallRecord
from spindle.domain.identity import LOCAL
from spindle.domain.run import Pause, Run, RunEvent
from spindle.stores.sqlite import SqliteStore
from spindle.stores.sqlite_at_once import TIDY_EVERY
from spindle.stores.sqlite_runs import MAX_AT_ONCE


def record(number: int) -> CallRecord:
    return CallRecord(f"k{number}", "a.b", "a", "local", {"n": number}, "ok", 1.0, 0.1, 1)


def stored(path: Path) -> list[str]:
    with sqlite3.connect(path) as db:
        return [key for (key,) in db.execute("SELECT key FROM calls ORDER BY id")]


async def test_a_record_waits_in_the_thread_while_another_process_writes(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with SqliteStore(path) as store:
        await store.save_call(record(0))
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        waiting = [asyncio.ensure_future(store.save_call(record(number))) for number in (1, 2)]
        await asyncio.sleep(0)
        assert stored(path) == ["k0"]
        other.execute("COMMIT")
        other.close()
        await asyncio.gather(*waiting)
        assert len(stored(path)) == 3


async def test_a_record_is_kept_though_its_caller_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with SqliteStore(path) as store:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        saving = asyncio.ensure_future(store.save_call(record(1)))
        await asyncio.sleep(0)
        saving.cancel()
        await asyncio.gather(saving, return_exceptions=True)
        other.execute("COMMIT")
        other.close()
    assert stored(path) == ["k1"]


async def test_every_so_often_events_of_a_run_are_left_to_the_thread(tmp_path: Path) -> None:
    run = Run("a.b", owner="me", lease=30.0)
    async with SqliteStore(tmp_path / "state.db") as store:
        assert await store.save_run(run)
        at_once = [
            store.save_events_at_once(run, [RunEvent(run.id, "note", 1.0)]) for _ in range(2 * TIDY_EVERY)
        ]
    assert at_once.count(None) == 2, "the thread's commits move the log into the file"
    assert set(at_once) == {True, None}


@pytest.mark.parametrize(
    ("error", "sealed", "is_paused", "by_thread"),
    [(None, b"x", False, 0), ("x" * MAX_AT_ONCE, b"x", False, 1), (None, b"x" * (MAX_AT_ONCE + 1), False, 1),
     (None, b"x", True, 1)],
    ids=["small", "a long error", "a large event", "a pause"],
)  # fmt: skip
async def test_only_small_changes_of_a_run_are_written_on_the_event_loop(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: str | None,
    sealed: bytes,
    is_paused: bool,
    by_thread: int,
) -> None:
    run = Run("a.b", owner="me", lease=30.0)
    async with SqliteStore(tmp_path / "state.db") as store:
        assert await store.save_run(run)
        asked = list[object]()
        real = store._writer.run

        async def thread(work: Callable[[sqlite3.Connection], Any]) -> Any:
            asked.append(work)
            return await real(work)

        monkeypatch.setattr(store._writer, "run", thread)
        changed = replace(run, error={"message": error} if error else None)
        events = [RunEvent(run.id, "note", 1.0, "p", sealed)]
        pauses = [Pause("t", run.id, "p", "input", "why?", LOCAL, 1.0)] if is_paused else []
        assert await store.save_run(changed, events, pauses)
        assert len(asked) == by_thread
        assert [event.sealed for event in await store.history(run.id)] == [sealed]
