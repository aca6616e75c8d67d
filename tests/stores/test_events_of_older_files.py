"""Files of an earlier version, whose events had three indexes."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from spindle.domain.run import Run, RunEvent
from spindle.stores import migrate
from spindle.stores.sqlite import SqliteStore

EVENTS = [
    RunEvent("r1", "started", 1.0, "", b"given", "e0"),
    RunEvent("r1", "begun", 2.0, "/a", b"begun", "e1"),
    RunEvent("r1", "step", 3.0, "/a", b"first", "e2"),
    RunEvent("r2", "step", 4.0, "/a", b"of another run", "e3"),
    RunEvent("r1", "note", 5.0, "#n:1", None, "e4"),
]


async def test_events_of_an_older_file_stay_and_are_taken_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older, contextlib.closing(sqlite3.connect(tmp_path / "state.db")) as file:
        known = migrate.migrations()[:10]
        older.setattr(migrate, "migrations", lambda: known)
        migrate.migrate(file)
        rows = [(event.run, event.kind, event.at, event.path, event.sealed, event.id) for event in EVENTS]
        file.executemany(
            "INSERT INTO run_events (run, kind, at, path, sealed, id) VALUES (?, ?, ?, ?, ?, ?)", rows
        )
        file.commit()
    async with SqliteStore(tmp_path / "state.db") as store:
        kept = [event for event in EVENTS if event.run == "r1"]
        assert [_told(event) for event in await store.history("r1")] == [_told(event) for event in kept]
        run = Run("x", "flow", owner="me", lease=60.0, id="r1")
        assert await store.save_run(run)
        late = RunEvent("r1", "step", 6.0, "/a", b"late")
        other = RunEvent("r1", "step", 7.0, "/b", b"other")
        assert await store.save_events(run, [late, *kept, other])
        assert [_told(event) for event in await store.history("r1")] == [
            _told(event) for event in [*kept, other]
        ]
        assert [event.sealed for event in await store.history("r2")] == [b"of another run"]


def _told(event: RunEvent) -> tuple[object, ...]:
    return event.kind, event.at, event.path, event.sealed
