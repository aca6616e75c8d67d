"""States of an earlier version, in which a step could have two outcomes."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from spindle.stores import migrate
from spindle.stores.postgres import PostgresStore
from spindle.stores.postgres import migrate as postgres_migrate
from spindle.stores.postgres.address import parse
from spindle.stores.postgres.connection import Database
from spindle.stores.sqlite import SqliteStore

EVENTS = [("r1", "step", "/a", "first"), ("r1", "step", "/a", "late"), ("r1", "step", "/b", "only")]
TRACE = [("trace:x", "step", "same", "one"), ("trace:x", "step", "same", "two")]


def insert(value: str) -> str:
    rows = [
        f"('{run}', '{kind}', 1.0, '{path}', {value.format(sealed)}, '{number}')"
        for number, (run, kind, path, sealed) in enumerate(EVENTS + TRACE)
    ]
    return f"INSERT INTO run_events (run, kind, at, path, sealed, id) VALUES {', '.join(rows)}"


async def check(store: SqliteStore | PostgresStore) -> None:
    assert [event.sealed for event in await store.history("r1")] == [b"first", b"only"]
    assert [event.sealed for event in await store.history("trace:x")] == [b"one", b"two"]


async def test_the_first_of_two_outcomes_in_an_older_file_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_of_them = migrate.migrations()
    with monkeypatch.context() as older:
        older.setattr(migrate, "migrations", lambda: all_of_them[:5])
        with contextlib.closing(sqlite3.connect(tmp_path / "state.db")) as file:
            migrate.migrate(file)
            file.execute(insert("CAST('{}' AS BLOB)"))
            file.commit()
    async with SqliteStore(tmp_path / "state.db") as store:
        await check(store)


async def test_the_first_of_two_outcomes_in_an_older_schema_is_kept(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_of_them = postgres_migrate.migrations()
    database = Database(parse(postgres_url))
    with monkeypatch.context() as older:
        older.setattr(postgres_migrate, "migrations", lambda: all_of_them[:4])
        await postgres_migrate.bring_up_to_date(database)
        rows = insert("convert_to('{}', 'UTF8')").replace("run_events", "{schema}.run_events")
        await database.change(rows)
    await database.close()
    async with PostgresStore(postgres_url) as store:
        await check(store)
