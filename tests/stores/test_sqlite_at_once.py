"""Small writes on the event loop: durable, and never in the way of a lock."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

from spindle.domain.call import CallRecord
from spindle.stores.sqlite import SqliteStore


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
