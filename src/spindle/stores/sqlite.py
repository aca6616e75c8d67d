"""The store in one SQLite file, shared safely by several processes.

Writes go through one thread in grouped transactions, reads through another, so that a lock held by
another process never stops the event loop. Write-ahead logging keeps every committed write through
a kill -9 of any process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from spindle.domain.call import CallRecord, Result
from spindle.domain.identity import Secret
from spindle.domain.tool import Tool, ToolSummary
from spindle.errors import StoreError
from spindle.owner_only import make_file, make_folder, tighten
from spindle.ports.store import (
    ANY_CALL,
    CallFilter,
    CallTiming,
    PinChange,
    RecordKind,
    SourceState,
    StoredEntry,
    StoredTool,
    ToolFilter,
)
from spindle.stores.migrate import migrate, migrations, schema_version, use_write_ahead_log, written_by_newer
from spindle.stores.rows import (
    SharedRows,
    definition_rows,
    name_conflict,
    row_from_stored,
    storable,
    stored_from_row,
    summaries_from_rows,
    tool_from_row,
)
from spindle.stores.run_rows import secret_row
from spindle.stores.sql import insert, select
from spindle.stores.sql_calls import SqlCalls
from spindle.stores.sql_schedules import SqlSchedules
from spindle.stores.sql_secrets import ACQUIRE, DELETE_SAME, INSERT_SECRET, SqlSecrets
from spindle.stores.sql_tools import (
    BUMP_VERSION,
    DELETE_PINS,
    INSERT_PIN,
    SELECT_PINS,
    TOOL,
    UPSERT_SOURCE,
    SqlTools,
    pin_rows,
    pins_from,
    source_row,
)
from spindle.stores.sql_triggers import SqlTriggers
from spindle.stores.sql_vectors import SqlVectors
from spindle.stores.sqlite_at_once import WritesAtOnce
from spindle.stores.sqlite_calls import CallRows
from spindle.stores.sqlite_queries import CLOCK, ENDED, sql, storable_values
from spindle.stores.sqlite_retention import INCREMENTAL, SqliteRetention
from spindle.stores.sqlite_runs import SqliteRuns
from spindle.stores.sqlite_serving import SqliteServing
from spindle.stores.worker import Worker, as_store_error

BUSY_TIMEOUT = 15.0


class SqliteStore(
    SqliteRuns, SqliteRetention, SqlSchedules, SqlTriggers, SqlSecrets, SqliteServing, SqlCalls, SqlTools,
    SqlVectors,
):  # fmt: skip
    """Implements the whole store port. `SqliteStore(":memory:")` keeps everything in memory. `clock` is the
    one by which leases end, `wall` that of schedules; all who open a file must share them."""

    _acquire = ACQUIRE + ENDED.format(end="held.until")
    _each = "SELECT value FROM json_each(:texts)"

    def __init__(
        self,
        path: str | Path,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._wall = wall
        self._memory = str(path) == ":memory:"
        self._path = str(path)
        self._writer = Worker(self._connect, name="spindle-store-write", transactions=True)
        self._reader = (
            self._writer
            if self._memory
            else Worker(self._connect, name="spindle-store-read", transactions=False)
        )
        # Lists of thousands of tools are read beside, so that no call waits for one.
        self._lister = (
            self._writer
            if self._memory
            else Worker(self._connect, name="spindle-store-list", transactions=False)
        )
        self._loop_connection: sqlite3.Connection | None = None
        self._version: int | None = None
        """Of the catalog in memory, which nobody else can change."""
        self._at_once = WritesAtOnce()
        self._calls = CallRows(None if self._memory else self._path, self._at_once, self._writer)

    async def open(self) -> SqliteStore:
        """Creates the file if needed and brings it to the newest version."""
        try:
            if self._memory or not self._is_current():
                await self._writer.run(migrate)
            if self._loop_connection is not None:
                _never_wait(self._loop_connection)
                self._at_once.connection = self._loop_connection
        except BaseException:
            await self.close()
            raise
        return self

    def _is_current(self) -> bool:
        try:
            # Records show who called what with which arguments: only the user may read them.
            make_folder(Path(self._path).parent)
        except OSError as error:
            raise StoreError(f"cannot create the folder of {self._path}: {error}") from None
        self._tighten()
        try:
            self._loop_connection = self._connect()
            return schema_version(self._loop_connection) == len(migrations())
        except sqlite3.Error as error:
            raise as_store_error(error) from None

    def _tighten(self) -> None:
        file = Path(self._path)
        with contextlib.suppress(OSError):  # SQLite says it better
            make_file(file)
        # What SQLite makes beside the file has its permissions.
        for ending in ("", "-wal", "-shm"):
            tighten(Path(f"{file}{ending}"))

    async def newer(self) -> StoreError | None:
        return written_by_newer(await self._reader.run(schema_version), len(migrations()))

    async def __aenter__(self) -> SqliteStore:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._calls.close()
        await self._lister.close()
        await self._reader.close()
        await self._writer.close()
        self._at_once.connection = None
        if self._loop_connection is not None:
            self._loop_connection.close()
            self._loop_connection = None

    async def time(self) -> float:
        return self._wall()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False
        )
        try:
            # Before anything is written: a file that is there keeps what it has.
            connection.execute(f"PRAGMA auto_vacuum = {INCREMENTAL}")
            if not self._memory:
                use_write_ahead_log(connection, BUSY_TIMEOUT)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.create_function(CLOCK, 0, self._clock)
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    # --- tools

    async def catalog_version(self) -> int:
        if (known := self.version_at_once()) is not None:
            return known
        version = await self._reader.run(_catalog_version)
        if self._memory:
            self._version = version
        return version

    def version_at_once(self) -> int | None:
        # Read on the event loop: a point read in WAL mode never waits and takes microseconds.
        if self._loop_connection is not None:
            with contextlib.suppress(sqlite3.Error):
                return _catalog_version(self._loop_connection)
        return self._version

    async def tool(self, name: str) -> Tool | None:
        def work(db: sqlite3.Connection) -> Tool | None:
            query = f"{_SELECT_TOOL} WHERE name = ? AND definition IS NOT NULL"
            row = db.execute(query, (storable(name),)).fetchone()
            return tool_from_row(row, SharedRows(db)) if row else None

        return await self._reader.run(work)

    async def tools(self, where: ToolFilter) -> list[ToolSummary]:
        query = """
            SELECT name, source, kind, description, tags, held IS NOT NULL,
                   CASE WHEN :effect IS NOT NULL THEN definition END
            FROM tools
            WHERE definition IS NOT NULL
              AND (:source IS NULL OR source = :source)
              AND (:kind IS NULL OR kind = :kind)
              AND (:tag IS NULL OR instr(char(10) || tags || char(10), char(10) || :tag || char(10)))
              AND (:pattern IS NULL OR name GLOB :pattern)
            ORDER BY name
        """
        values = storable_values(dataclasses.asdict(where))

        def work(db: sqlite3.Connection) -> list[ToolSummary]:
            return summaries_from_rows(db.execute(query, values), where.effect)

        return await self._lister.run(work)

    async def search(self, query: str, limit: int) -> list[ToolSummary]:
        from spindle.stores.search import search

        return await self._reader.run(lambda db: search(db, query, limit))

    async def stored_tools(self, source: str) -> list[StoredTool]:
        query = f"{_SELECT_TOOL} WHERE source = ? ORDER BY name"

        def work(db: sqlite3.Connection) -> list[StoredTool]:
            shared = SharedRows(db)
            return [stored_from_row(row, shared) for row in db.execute(query, (storable(source),)).fetchall()]

        return await self._lister.run(work)

    async def replace_tools(
        self, state: SourceState, tools: Sequence[StoredTool], pins: PinChange | None = None
    ) -> bool:
        from spindle.stores.search import index
        from spindle.stores.search_index import weighed_words

        rows = [row_from_stored(tool, state) for tool in tools]
        weighed = [(storable(tool.name), weighed_words(tool.current)) for tool in tools if tool.current]
        definitions = definition_rows(state.name, tools)

        def work(db: sqlite3.Connection) -> bool:
            if pins is not None and not _repin(db, state.name, pins):
                return False
            db.execute(sql(UPSERT_SOURCE), source_row(state))
            _delete_tools(db, state.name)
            db.executemany("INSERT INTO definitions VALUES (?, ?, ?, ?)", definitions)
            for row in rows:
                _refuse_conflict(db, row["name"], row["place"])
                db.execute(_INSERT_TOOL, row)
            index(db, state.name, weighed)
            db.execute(sql(BUMP_VERSION))
            return True

        try:
            return await self._writer.run(work)
        finally:
            self._version = None

    async def forget_source(self, source: str) -> None:
        def work(db: sqlite3.Connection) -> None:
            _delete_tools(db, source)
            db.execute(sql(DELETE_PINS), {"source": storable(source)})
            db.execute("DELETE FROM sources WHERE name = ?", (source,))
            db.execute(sql(BUMP_VERSION))

        try:
            await self._writer.run(work)
        finally:
            self._version = None

    # --- calls

    def save_call(self, record: CallRecord, *, together: bool = False) -> Awaitable[None]:
        return self._calls.save(self._call_row(record), together=together)

    async def calls(
        self,
        *,
        limit: int,
        tool: str | None = None,
        outcome: str | None = None,
        where: CallFilter = ANY_CALL,
    ) -> list[CallRecord]:
        await self._calls.settle_to_read()
        return await super().calls(limit=limit, tool=tool, outcome=outcome, where=where)

    async def call_timings(
        self, *, limit: int, since: float, principal: str | None = None, source: str | None = None
    ) -> list[CallTiming]:
        await self._calls.settle_to_read()
        return await super().call_timings(limit=limit, since=since, principal=principal, source=source)

    async def call(self, key: str) -> CallRecord | None:
        await self._calls.settle_to_read()
        return await super().call(key)

    async def entries(self, kind: RecordKind, after: StoredEntry | None, limit: int) -> list[StoredEntry]:
        if kind == "calls":
            await self._calls.settle_to_read()
        return await super().entries(kind, after, limit)

    # --- secrets

    async def swap_secret(self, old: Secret, new: Secret | None) -> bool:
        def work(db: sqlite3.Connection) -> bool:
            found = db.execute(sql(DELETE_SAME), secret_row(old))
            if found.rowcount and new is not None:
                db.execute(sql(INSERT_SECRET), secret_row(new))
            return found.rowcount == 1

        return await self._writer.run(work)

    # --- cache

    async def cache(self, key: str, result: Result, expires_at: float, now: float) -> None:
        blob = self._cache_blob(key, result)
        if blob is None:
            return

        def work(db: sqlite3.Connection) -> None:
            db.execute(_DELETE_EXPIRED, (now,))
            db.execute("INSERT OR REPLACE INTO cache VALUES (?, ?, ?)", (key, blob, expires_at))

        await self._writer.run(work)


_SELECT_TOOL = sql(select("tools", TOOL))
_INSERT_TOOL = sql(insert("tools", (*TOOL, "local_name", "description", "tags")))
_DELETE_EXPIRED = """
    DELETE FROM cache WHERE key IN (SELECT key FROM cache WHERE expires_at <= ? LIMIT 100)
"""


def _never_wait(connection: sqlite3.Connection) -> None:
    """Prepares a connection for the event loop: it waits neither for locks nor for the disk."""
    connection.execute("PRAGMA busy_timeout = 0")
    connection.execute("PRAGMA wal_autocheckpoint = 0")


def _catalog_version(db: sqlite3.Connection) -> int:
    return db.execute("SELECT value FROM meta WHERE key = 'catalog_version'").fetchone()[0]


def _delete_tools(db: sqlite3.Connection, source: str) -> None:
    for table in ("search_words", "tools", "definitions"):
        db.execute(f"DELETE FROM {table} WHERE source = ?", (source,))  # noqa: S608 - constants


def _repin(db: sqlite3.Connection, source: str, pins: PinChange) -> bool:
    """Replaces the pins of a source, unless they have changed since they were read."""
    if pins_from(db.execute(sql(SELECT_PINS), {"source": storable(source)}).fetchall()) != pins.before:
        return False
    if pins.after != pins.before:
        db.execute(sql(DELETE_PINS), {"source": storable(source)})
        db.executemany(sql(INSERT_PIN), pin_rows(source, pins.after))
    return True


def _refuse_conflict(db: sqlite3.Connection, name: str, place: str) -> None:
    other = db.execute("SELECT place FROM tools WHERE name = ?", (name,)).fetchone()
    if other:
        raise name_conflict(name, other[0], place)
