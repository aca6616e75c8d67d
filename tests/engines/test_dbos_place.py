"""The tables of DBOS in a new file of SQLite, made by several at once, or by one that dies of it."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from pathlib import Path

import pytest
from dbos import _sys_db_sqlite

from spindle.domain.engine import QueueConfig
from spindle.engines.dbos import DbosEngine
from spindle.engines.dbos_place import EnginePlace
from spindle.errors import StoreError


def engine_in(file: Path) -> DbosEngine:
    return DbosEngine(EnginePlace.of(None, None, file), {"default": QueueConfig()}, print)


async def is_usable(engine: DbosEngine) -> bool:
    return await engine.asked(lambda client: client.list_workflows()) == []


async def test_many_that_open_a_new_file_at_once_all_can_use_it(tmp_path: Path) -> None:
    engines = [engine_in(tmp_path / "engine.db") for _ in range(8)]
    try:
        assert all(await asyncio.gather(*(is_usable(engine) for engine in engines)))
    finally:
        for engine in engines:
            await engine.close()


async def test_who_dies_while_making_tables_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "engine.db"
    known = _sys_db_sqlite.sqlite_migrations
    monkeypatch.setattr(
        _sys_db_sqlite, "sqlite_migrations", [known[0] + "; CREATE TABLE workflow_status (a)"]
    )
    engine = engine_in(file)
    with pytest.raises(StoreError):
        await is_usable(engine)
    await engine.close()
    with contextlib.closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == []
    monkeypatch.setattr(_sys_db_sqlite, "sqlite_migrations", known)
    engine = engine_in(file)
    assert await is_usable(engine)
    await engine.close()
