from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from processes import kill, outputs, processes

from spindle.stores.sqlite import SqliteStore


def is_sound(file: Path) -> bool:
    with contextlib.closing(sqlite3.connect(file)) as connection:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def test_several_processes_may_create_the_file_at_the_same_time(file: Path) -> None:
    with processes(*[(str(file), "open")] * 6) as running:
        assert outputs(running) == [["done"]] * 6
    async with SqliteStore(file) as store:
        assert await store.catalog_version() == 0


async def test_processes_that_write_at_once_lose_nothing(file: Path) -> None:
    names = ["a", "b", "c", "d"]
    with processes(*[(str(file), "save", name, "200") for name in names]) as running:
        outputs(running)
    async with SqliteStore(file) as store:
        saved = {record.key for record in await store.calls(limit=10_000)}
    assert saved == {f"{name}-{number:06}" for name in names for number in range(200)}
    assert is_sound(file)


async def test_processes_that_sync_at_once_each_leave_their_last_tools(file: Path) -> None:
    with processes(*[(str(file), "sync", name, "50") for name in ("a", "b", "c")]) as running:
        outputs(running)
    async with SqliteStore(file) as store:
        assert await store.names() == ["a.tool0", "b.tool0", "c.tool0"]
        assert await store.catalog_version() == 150
        assert len(await store.search("tool0", 10)) == 3


async def test_what_was_saved_survives_the_killing_of_the_process(file: Path) -> None:
    with processes((str(file), "save", "k", "1000000")) as [process]:
        assert process.stdout is not None
        saved = [process.stdout.readline().strip() for _ in range(150)]
        kill(process)
        saved += process.stdout.read().split()
    async with SqliteStore(file) as store:
        found = {record.key for record in await store.calls(limit=1_000_000)}
        assert len(saved) >= 150
        assert set(saved) <= found
        assert len(found) <= len(saved) + 1
    assert is_sound(file)


async def test_a_killed_sync_leaves_the_old_tools_or_the_new(file: Path) -> None:
    with processes((str(file), "sync", "a", "1000000"), (str(file), "save", "k", "40")) as [sync, save]:
        assert save.stdout is not None
        assert save.stdout.read().split()[-1] == "done"
        kill(sync)
    async with SqliteStore(file) as store:
        names = await store.names()
        assert len(names) <= 1
        assert [summary.name for summary in await store.search("tool", 10)] == names
    assert is_sound(file)
