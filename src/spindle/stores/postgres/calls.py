"""Records of calls and cached results, in PostgreSQL."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any

from spindle.domain.call import CallRecord, Result
from spindle.errors import SpindleError, StoreError
from spindle.stores.postgres.connection import Database, Statements
from spindle.stores.postgres.queries import PostgresQueries
from spindle.stores.rows import CALL
from spindle.stores.sql_calls import SqlCalls

MAX_BATCH = 256


@dataclass(slots=True)
class _Waiting:
    row: tuple[Any, ...]
    future: asyncio.Future[None]


class PostgresCalls(PostgresQueries, SqlCalls):
    """Writes all waiting records with one statement, in a task of its own: a record is kept even when its
    caller is cancelled."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._waiting: deque[_Waiting] = deque()
        self._writing: asyncio.Task[None] | None = None
        self._finished = False

    async def save_call(self, record: CallRecord, *, together: bool = False) -> None:
        if self._finished:
            raise StoreError("the store was closed", hint="open Spindle again")
        waiting = _Waiting(self._call_row(record), asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_all(), name="spindle-store-records")
        await waiting.future

    async def finish_records(self) -> None:
        """Writes the waiting records and accepts no more."""
        self._finished = True
        if self._writing is not None:
            await asyncio.shield(self._writing)

    async def _write_all(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_BATCH))]
            try:
                await self._write(batch)
            except BaseException as error:
                # No caller may be left waiting: neither by a bug nor by the end of the event loop.
                for waiting in [*batch, *self._waiting]:
                    if not waiting.future.done():
                        waiting.future.set_exception(error)
                self._waiting.clear()
                raise

    async def _write(self, batch: list[_Waiting]) -> None:
        try:
            await self._insert([waiting.row for waiting in batch])
        except SpindleError as error:
            if len(batch) > 1 and not _is_unreachable(error):
                # One of them is bad: write each alone, so that the others are kept.
                for waiting in batch:
                    await self._write([waiting])
                return
            for waiting in batch:
                if not waiting.future.done():
                    waiting.future.set_exception(error)
            return
        for waiting in batch:
            if not waiting.future.done():
                waiting.future.set_result(None)

    async def _insert(self, rows: list[tuple[Any, ...]]) -> None:
        async def work(it: Statements) -> None:
            if it.tries > 1:
                # The first attempt may have been committed although the answer was lost.
                await it.change(_INSERT_MISSING, _columns(rows))
            elif len(rows) > 1:
                await it.change(_INSERT, _columns(rows))
            else:
                # Arrays of one element would double the driver's work.
                await it.change(_INSERT_ONE, rows[0])

        await self._db.run(work)

    async def cache(self, key: str, result: Result, expires_at: float, now: float) -> None:
        blob = self._cache_blob(key, result)
        if blob is None:
            return

        async def work(it: Statements) -> None:
            # Not in one transaction: two processes that each renew what the other deletes would block
            # each other.
            await it.change(_DELETE_EXPIRED, (now,))
            await it.change(_CACHE, (key, blob, expires_at))

        await self._db.run(work)


def _columns(rows: list[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _is_unreachable(error: SpindleError) -> bool:
    """True if the server itself fails, so that trying each record alone would only take longer. Errors
    about bad data are of the classes 22 and 23."""
    return not str(error.details or "").startswith(("22", "23"))


_COLUMNS = ", ".join(CALL)
_ROWS = f"""
    unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::bytea[], %s::text[], %s::float8[],
           %s::float8[], %s::int[], %s::bytea[], %s::text[], %s::bytea[], %s::text[],
           %s::text[]) AS record ({_COLUMNS})
"""
_INSERT_ONE = f"INSERT INTO {{schema}}.calls ({_COLUMNS}) VALUES ({', '.join(['%s'] * len(CALL))})"  # noqa: S608
_INSERT = f"INSERT INTO {{schema}}.calls ({_COLUMNS}) SELECT {_COLUMNS} FROM {_ROWS}"  # noqa: S608
_INSERT_MISSING = f"""
    {_INSERT}
    WHERE NOT EXISTS (SELECT 1 FROM {{schema}}.calls AS known
                      WHERE known.key = record.key AND known.started_at = record.started_at)
"""  # noqa: S608
# Rows that another process is deleting or renewing right now are skipped.
_DELETE_EXPIRED = """
    DELETE FROM {schema}.cache WHERE key IN
        (SELECT key FROM {schema}.cache WHERE expires_at <= %s LIMIT 100 FOR UPDATE SKIP LOCKED)
"""
_CACHE = """
    INSERT INTO {schema}.cache (key, result, expires_at) VALUES (%s, %s, %s)
    ON CONFLICT (key) DO UPDATE SET result = excluded.result, expires_at = excluded.expires_at
"""
