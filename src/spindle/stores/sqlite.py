"""The store in one SQLite file, shared safely by several processes.

Writes go through one thread in grouped transactions, reads through another, so that a lock held by
another process never stops the event loop. Write-ahead logging keeps every committed write through
a kill -9 of any process.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.domain.call import CallRecord, Result
from spindle.domain.tool import Tool, ToolSpec, ToolSummary
from spindle.errors import NameConflictError, NotFoundError, StoreError
from spindle.ports.store import SourceState, StoredTool, ToolFilter
from spindle.stores.search import index_row, search, summary_from_row
from spindle.stores.worker import Worker, as_store_error

if TYPE_CHECKING:
    from types import TracebackType

BUSY_TIMEOUT = 15.0
MAX_CACHED_RESULT = 1024 * 1024


class SqliteStore:
    """Implements the whole store port. `SqliteStore(":memory:")` keeps everything in memory."""

    def __init__(self, path: str | Path) -> None:
        self._memory = str(path) == ":memory:"
        self._path = str(path)
        self._writer = Worker(self._connect, name="spindle-store-write", transactions=True)
        self._reader = (
            self._writer
            if self._memory
            else Worker(self._connect, name="spindle-store-read", transactions=False)
        )
        self._version_connection: sqlite3.Connection | None = None

    async def open(self) -> SqliteStore:
        """Create the file if need be and bring it to the newest version."""
        if not self._memory:
            try:
                Path(self._path).parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StoreError(f"cannot create the folder of {self._path}: {error}") from None
            try:
                self._version_connection = self._connect()
                current = self._version_connection.execute("PRAGMA user_version").fetchone()[0]
            except sqlite3.Error as error:
                raise as_store_error(error) from None
            if current == len(_migrations()):
                return self
        await self._writer.run(_migrate)
        return self

    async def __aenter__(self) -> SqliteStore:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._reader.close()
        await self._writer.close()
        if self._version_connection is not None:
            self._version_connection.close()
            self._version_connection = None

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False
        )
        if not self._memory:
            _use_write_ahead_log(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        return connection

    # --- tools

    async def catalog_version(self) -> int:
        # Read on the event loop: a point read in WAL mode waits for nobody and takes microseconds.
        if self._version_connection is None:
            return await self._reader.run(_catalog_version)
        try:
            return _catalog_version(self._version_connection)
        except sqlite3.Error as error:
            raise as_store_error(error) from None

    async def tool(self, name: str) -> Tool | None:
        def work(db: sqlite3.Connection) -> Tool | None:
            query = f"{_SELECT_TOOL} WHERE name = ? AND definition IS NOT NULL"
            row = db.execute(query, (name,)).fetchone()
            return _stored_from_row(row).current if row else None

        return await self._reader.run(work)

    async def names_ending_in(self, local_name: str) -> list[str]:
        query = "SELECT name FROM tools WHERE local_name = ? AND definition IS NOT NULL ORDER BY name"
        return await self._reader.run(lambda db: [row[0] for row in db.execute(query, (local_name,))])

    async def names(self) -> list[str]:
        query = "SELECT name FROM tools WHERE definition IS NOT NULL ORDER BY name"
        return await self._reader.run(lambda db: [row[0] for row in db.execute(query)])

    async def tools(self, where: ToolFilter) -> list[ToolSummary]:
        query = """
            SELECT name, source, kind, description, tags, held IS NOT NULL FROM tools
            WHERE definition IS NOT NULL
              AND (:source IS NULL OR source = :source)
              AND (:kind IS NULL OR kind = :kind)
              AND (:tag IS NULL OR instr(' ' || tags || ' ', ' ' || :tag || ' '))
              AND (:pattern IS NULL OR name GLOB :pattern)
            ORDER BY name
        """
        values = {"source": where.source, "kind": where.kind, "tag": where.tag, "pattern": where.pattern}
        return await self._reader.run(lambda db: [summary_from_row(row) for row in db.execute(query, values)])

    async def search(self, query: str, limit: int) -> list[ToolSummary]:
        return await self._reader.run(lambda db: search(db, query, limit))

    async def stored_tools(self, source: str) -> list[StoredTool]:
        query = f"{_SELECT_TOOL} WHERE source = ? ORDER BY name"
        return await self._reader.run(
            lambda db: [_stored_from_row(row) for row in db.execute(query, (source,))]
        )

    async def sources(self) -> dict[str, SourceState]:
        query = """
            SELECT sources.name, sources.kind, signature, synced_at,
                   count(definition), count(held), error
            FROM sources LEFT JOIN tools ON tools.source = sources.name
            GROUP BY sources.name ORDER BY sources.name
        """
        return await self._reader.run(lambda db: {row[0]: SourceState(*row) for row in db.execute(query)})

    async def replace_tools(self, state: SourceState, tools: Sequence[StoredTool]) -> None:
        rows = [_row_from_stored(tool, state) for tool in tools]
        indexed = [(tool.name, index_row(tool.current)) for tool in tools if tool.current]

        def work(db: sqlite3.Connection) -> None:
            db.execute(
                """
                INSERT INTO sources (name, kind, signature, synced_at, error) VALUES (?, ?, ?, ?, NULL)
                ON CONFLICT (name) DO UPDATE SET kind = excluded.kind, signature = excluded.signature,
                    synced_at = excluded.synced_at, error = NULL
                """,
                (state.name, state.kind, state.signature, state.synced_at),
            )
            _delete_tools(db, state.name)
            for row in rows:
                _refuse_conflict(db, row["name"], row["place"])
                db.execute(
                    """
                    INSERT INTO tools (name, local_name, source, kind, description, tags, place,
                                       fingerprint, definition, held)
                    VALUES (:name, :local_name, :source, :kind, :description, :tags, :place,
                            :fingerprint, :definition, :held)
                    """,
                    row,
                )
            ids = dict(db.execute("SELECT name, id FROM tools WHERE source = ?", (state.name,)))
            db.executemany(
                "INSERT INTO tool_search (rowid, name, tags, description, parameters) VALUES (?, ?, ?, ?, ?)",
                [(ids[name], *texts) for name, texts in indexed],
            )
            _bump_catalog_version(db)

        await self._writer.run(work)

    async def note_failure(self, source: str, kind: str, error: str) -> None:
        query = """
            INSERT INTO sources (name, kind, error) VALUES (?, ?, ?)
            ON CONFLICT (name) DO UPDATE SET error = excluded.error
        """
        await self._writer.run(lambda db: db.execute(query, (source, kind, error)) and None)

    async def forget_source(self, source: str) -> None:
        def work(db: sqlite3.Connection) -> None:
            _delete_tools(db, source)
            db.execute("DELETE FROM sources WHERE name = ?", (source,))
            _bump_catalog_version(db)

        await self._writer.run(work)

    # --- calls

    async def save_call(self, record: CallRecord) -> None:
        import orjson

        row = (
            record.key, record.tool, record.source, record.principal,
            orjson.dumps(record.arguments, default=str), record.outcome, record.started_at, record.duration,
            record.attempts, orjson.dumps(record.error, default=str) if record.error else None, record.parent,
        )  # fmt: skip
        await self._writer.run(lambda db: db.execute(_INSERT_CALL, row) and None)

    async def calls(
        self, *, limit: int, tool: str | None = None, outcome: str | None = None
    ) -> list[CallRecord]:
        query = f"""
            {_SELECT_CALL}
            WHERE (:tool IS NULL OR tool = :tool) AND (:outcome IS NULL OR outcome = :outcome
                   OR (:outcome = 'failed' AND outcome NOT IN ('ok', 'cached')))
            ORDER BY id DESC LIMIT :limit
        """
        values = {"tool": tool, "outcome": outcome, "limit": limit}
        return await self._reader.run(lambda db: [_record_from_row(row) for row in db.execute(query, values)])

    async def call(self, key: str) -> CallRecord | None:
        query = f"{_SELECT_CALL} WHERE substr(key, 1, length(:key)) = :key LIMIT 2"
        rows = await self._reader.run(lambda db: db.execute(query, {"key": key}).fetchall())
        if len(rows) > 1:
            raise NotFoundError(f"several calls begin with {key!r}", hint="give more characters of the key")
        return _record_from_row(rows[0]) if rows else None

    # --- cache

    async def cached(self, key: str, now: float) -> Result | None:
        import orjson

        query = "SELECT result FROM cache WHERE key = ? AND expires_at > ?"
        row = await self._reader.run(lambda db: db.execute(query, (key, now)).fetchone())
        return Result.from_dict(orjson.loads(row[0]), cached=True) if row else None

    async def cache(self, key: str, result: Result, expires_at: float, now: float) -> None:
        import orjson

        blob = orjson.dumps({**result.to_dict(), "has_structured": result.has_structured})
        if len(blob) > MAX_CACHED_RESULT:
            return

        def work(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM cache WHERE expires_at <= ?", (now,))
            db.execute("INSERT OR REPLACE INTO cache VALUES (?, ?, ?)", (key, blob, expires_at))

        await self._writer.run(work)

    async def clear_cache(self) -> int:
        return await self._writer.run(lambda db: db.execute("DELETE FROM cache").rowcount)


_SELECT_TOOL = "SELECT name, source, kind, place, fingerprint, definition, held FROM tools"
_SELECT_CALL = """
    SELECT key, tool, source, principal, arguments, outcome, started_at, duration, attempts, error, parent
    FROM calls
"""
_INSERT_CALL = """
    INSERT INTO calls (key, tool, source, principal, arguments, outcome, started_at, duration,
                       attempts, error, parent)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Switching the mode ignores the busy timeout, so processes that start together try again."""
    deadline = time.monotonic() + BUSY_TIMEOUT
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _migrations() -> list[Path]:
    return sorted((Path(__file__).parent / "migrations").glob("*.sql"))


def _migrate(db: sqlite3.Connection) -> None:
    migrations = _migrations()
    current = db.execute("PRAGMA user_version").fetchone()[0]
    if current > len(migrations):
        raise StoreError(
            f"the state was written by a newer Spindle (version {current}, this one knows {len(migrations)})",
            hint="upgrade Spindle, or use another workspace",
        )
    for number, path in enumerate(migrations[current:], start=current + 1):
        for statement in _statements(path.read_text("utf-8")):
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {number}")


def _statements(script: str) -> Iterable[str]:
    # Not executescript(): it commits first, and a migration must happen whole or not at all.
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _catalog_version(db: sqlite3.Connection) -> int:
    return db.execute("SELECT value FROM meta WHERE key = 'catalog_version'").fetchone()[0]


def _bump_catalog_version(db: sqlite3.Connection) -> None:
    db.execute("UPDATE meta SET value = value + 1 WHERE key = 'catalog_version'")


def _delete_tools(db: sqlite3.Connection, source: str) -> None:
    db.execute("DELETE FROM tool_search WHERE rowid IN (SELECT id FROM tools WHERE source = ?)", (source,))
    db.execute("DELETE FROM tools WHERE source = ?", (source,))


def _refuse_conflict(db: sqlite3.Connection, name: str, place: str) -> None:
    other = db.execute("SELECT place FROM tools WHERE name = ?", (name,)).fetchone()
    if other:
        raise NameConflictError(
            f"two tools are called {name!r}: one in {other[0]}, one in {place}",
            hint="rename one of them, or leave one out with `exclude`",
        )


def _row_from_stored(stored: StoredTool, state: SourceState) -> dict[str, Any]:
    import orjson

    shown = stored.current or stored.held
    assert shown is not None, "a stored tool has a current definition, a held one, or both"
    return {
        "name": stored.name,
        "local_name": shown.local_name,
        "source": state.name,
        "kind": state.kind,
        "description": shown.description,
        "tags": " ".join(shown.spec.tags),
        "place": shown.spec.place,
        "fingerprint": stored.current.fingerprint if stored.current else None,
        "definition": orjson.dumps(stored.current.spec.definition()) if stored.current else None,
        "held": orjson.dumps(stored.held.spec.definition()) if stored.held else None,
    }


def _stored_from_row(row: tuple[Any, ...]) -> StoredTool:
    import orjson

    name, source, kind, place, fingerprint, definition, held = row

    def tool(blob: bytes, mark: str | None) -> Tool:
        spec = ToolSpec.from_definition(orjson.loads(blob), place)
        return Tool(name, source, kind, spec, mark or spec.fingerprint)

    return StoredTool(
        name,
        current=tool(definition, fingerprint) if definition is not None else None,
        held=tool(held, None) if held is not None else None,
    )


def _record_from_row(row: tuple[Any, ...]) -> CallRecord:
    import orjson

    key, tool, source, principal, arguments, outcome, started_at, duration, attempts, error, parent = row
    return CallRecord(
        key, tool, source, principal, orjson.loads(arguments), outcome, started_at, duration, attempts,
        orjson.loads(error) if error else None, parent,
    )  # fmt: skip
