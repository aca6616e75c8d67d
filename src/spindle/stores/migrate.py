"""Brings a SQLite file to the schema version of this Spindle."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable
from pathlib import Path

from spindle.errors import StoreError

_INDEXED_ANEW = {4}
"""Migrations after which the words of all tools are taken down once more."""


def use_write_ahead_log(connection: sqlite3.Connection, patience: float) -> None:
    """Switches to write-ahead logging. That ignores the busy timeout, so processes that start together try
    again."""
    deadline = time.monotonic() + patience
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def migrations() -> list[Path]:
    """The numbered SQL files, in order."""
    return sorted((Path(__file__).parent / "migrations").glob("*.sql"))


def schema_version(db: sqlite3.Connection) -> int:
    """The version of the schema in the file."""
    return db.execute("PRAGMA user_version").fetchone()[0]


def written_by_newer(current: int, known: int) -> StoreError | None:
    """Returns the error for a file that a newer Spindle has brought up to date."""
    if current <= known:
        return None
    return StoreError(
        f"the state was written by a newer Spindle (version {current}, this one knows {known})",
        hint="upgrade Spindle, or use another workspace",
    )


def migrate(db: sqlite3.Connection, up_to: int | None = None) -> None:
    """Applies the missing migrations in one transaction, so several processes may try at once. `up_to` stops
    at an older version."""
    known = migrations()[:up_to]
    current = schema_version(db)
    if (error := written_by_newer(current, len(known))) is not None:
        raise error
    for number, path in enumerate(known[current:], start=current + 1):
        for statement in _statements(path.read_text("utf-8")):
            db.execute(statement)
        if number in _INDEXED_ANEW:
            from spindle.stores.search import index_all

            index_all(db)
        db.execute(f"PRAGMA user_version = {number}")


def _statements(script: str) -> Iterable[str]:
    # Not executescript(): it commits first, and a migration must happen whole or not at all.
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
