"""Removing records and giving space back, in SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from spindle.ports.store import RecordKind, Removed
from spindle.stores.sql_retention import ANNOUNCE, ENDED, EVENTS_AT_ONCE, SqlRetention
from spindle.stores.sqlite_queries import SqliteQueries, sql

PAGES_AT_ONCE = 500
"""Pages of the file, of 4 KiB, that are given back at a time."""
INCREMENTAL = 2
"""The `auto_vacuum` of a file that can shrink bit by bit. One that an older Spindle made cannot, until it has
been rewritten once."""
MAX_REWRITTEN = 1024**3
"""Bytes of a file that is rewritten while other processes wait: they do so for 15 s."""


class SqliteRetention(SqliteQueries, SqlRetention):
    """The part of the store that `RetentionStore` describes."""

    async def remove(self, kind: RecordKind, keys: Sequence[int | str]) -> Removed:
        given = {"keys": json.dumps(list(keys))}
        return await self._writer.run(lambda db: _remove(db, kind, given))

    async def size(self) -> int:
        return await self._reader.run(lambda db: _number(db, "page_count") * _number(db, "page_size"))

    async def give_space_back(self, *, all_at_once: bool = False) -> bool:
        if self._reader is self._writer:
            return False  # in memory
        # In the thread that has no transaction open: neither statement may be part of one.
        return await self._reader.run(_rewrite if all_at_once else _shrink)


def _shrink(db: sqlite3.Connection) -> bool:
    """Gives some pages back; True while there are more. Others write between two times."""
    if _number(db, "auto_vacuum") != INCREMENTAL or not _number(db, "freelist_count"):
        return False
    # A script, because `execute` takes one step of a statement without rows, which is one page.
    db.executescript(f"PRAGMA incremental_vacuum({PAGES_AT_ONCE})")
    return _number(db, "freelist_count") > 0


def _remove(db: sqlite3.Connection, kind: RecordKind, given: dict[str, Any]) -> Removed:
    if kind == "runs":
        return _remove_runs(db, given)
    if kind == "audit":
        db.execute(sql(ANNOUNCE), {"last": max(json.loads(given["keys"]), default=0)})
    table, column = _PLACES[kind]
    return Removed(db.execute(f"DELETE FROM {table} WHERE {column} IN {_KEYS}", given).rowcount)  # noqa: S608


def _remove_runs(db: sqlite3.Connection, given: dict[str, Any]) -> Removed:
    found = db.execute(f"SELECT id FROM runs WHERE id IN {_KEYS} AND {ENDED}", given).fetchall()  # noqa: S608
    ended = {"keys": json.dumps([id for (id,) in found])}
    if db.execute(_DELETE_EVENTS, ended).rowcount >= EVENTS_AT_ONCE:
        # Without all its events a run must not be resumed: it would make its steps again.
        db.execute(f"UPDATE runs SET status = 'failed' WHERE id IN {_KEYS}", ended)  # noqa: S608
        return Removed(0, more=True)
    db.execute(f"DELETE FROM pauses WHERE run IN {_KEYS}", ended)  # noqa: S608
    return Removed(db.execute(f"DELETE FROM runs WHERE id IN {_KEYS}", ended).rowcount)  # noqa: S608


def _rewrite(db: sqlite3.Connection) -> bool:
    """Gives everything back: rewrites a file that cannot shrink bit by bit, unless it is too large, and cuts
    the log."""
    size = _number(db, "page_count") * _number(db, "page_size")
    if _number(db, "auto_vacuum") != INCREMENTAL and size <= MAX_REWRITTEN:
        db.execute(f"PRAGMA auto_vacuum = {INCREMENTAL}")
        db.execute("VACUUM")
    if _shrink(db):
        return True
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return False


def _number(db: sqlite3.Connection, pragma: str) -> int:
    return db.execute(f"PRAGMA {pragma}").fetchone()[0]


_PLACES = {
    "calls": ("calls", "id"),
    "audit": ("audit", "id"),
    "events": ("run_events", "number"),
    "cache": ("cache", "key"),
}
_KEYS = "(SELECT value FROM json_each(:keys))"
_DELETE_EVENTS = f"""
    DELETE FROM run_events WHERE number IN
        (SELECT number FROM run_events WHERE run IN {_KEYS} LIMIT {EVENTS_AT_ONCE})
"""  # noqa: S608 - only constants
