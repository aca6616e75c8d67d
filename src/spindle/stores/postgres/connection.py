"""Connections to one PostgreSQL database, shared by all parts of the store.

Nothing is kept in a session: names are qualified and timeouts are set inside transactions. So one
connection is as good as another, and one that is lost can be replaced.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import select
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus

from spindle.errors import StoreError
from spindle.stores.postgres.address import Address
from spindle.stores.postgres.faults import (
    connection_failed,
    is_recovering,
    is_starting,
    no_answer,
    store_error,
)
from spindle.stores.postgres.text import storable_values

_CLOCK = "CAST(extract(epoch FROM clock_timestamp()) AS DOUBLE PRECISION)"
_NAMED_VALUE = re.compile(r"(?<![:\w]):(\w+)")
"""And not the type in `value::text`."""

T = TypeVar("T")
Connection: TypeAlias = AsyncConnection[tuple[Any, ...]]
Work: TypeAlias = Callable[["Statements"], Awaitable[T]]

STATEMENT_TIMEOUT = 15.0
TRANSACTION_TIMEOUT = 60.0
LOCK_TIMEOUT = 15.0
SILENCE_TIMEOUT = 30.0
"""A process that falls silent inside a transaction, as one whose network is gone does, loses its locks."""
START_PATIENCE = 5.0
"""For a server that starts, or recovers from the death of one of its processes."""
IDLE_LIMIT = 60.0
"""A connection that was idle for longer is replaced: what stands in between may have forgotten it."""


@dataclass(frozen=True, slots=True)
class Statements:
    """Runs statements of ours on one connection. Texts among their values may be any."""

    connection: Connection
    sql: Callable[[str], bytes]
    tries: int
    """1 at first. Work that is repeated counts what it finds of its own effects as its own."""

    async def rows(self, query: str, values: Any = None) -> list[Any]:
        """Returns all rows of a query, as tuples."""
        found = await self.connection.execute(self.sql(query), storable_values(values), binary=True)
        return await found.fetchall()

    async def change(self, statement: str, values: Any = None) -> int:
        """Runs a statement, and returns how many rows it touched."""
        return (await self.connection.execute(self.sql(statement), storable_values(values))).rowcount

    async def change_each(self, statement: str, rows: Sequence[Any]) -> None:
        """Runs a statement once with each of several rows of values."""
        await self.connection.cursor().executemany(self.sql(statement), storable_values(list(rows)))


class Database:
    """A pool of up to `pool_size` connections, opened by the caller that needs one, who thereby sees why
    one cannot be opened. A connection lost while idle is noticed before it is used; one lost at work is
    replaced and the work is repeated once."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._schema = f'"{address.schema}"'
        self._idle: list[tuple[Connection, float]] = []
        self._places = asyncio.Semaphore(address.pool_size)
        self._closed = False
        self._was_reached = False
        self._statements: dict[str, bytes] = {}

    def sql(self, text: str) -> bytes:
        """The statement with the schema's name in place of each `{schema}`, the server's clock in place of
        `{now}`, and `:name` as psycopg writes a value. The text must be a constant of ours."""
        found = self._statements.get(text)
        if found is None:
            named = _NAMED_VALUE.sub(r"%(\1)s", text)
            placed = named.replace("{schema}", self._schema).replace("{now}", _CLOCK)
            found = self._statements[text] = placed.encode()
        return found

    async def run(self, work: Work[T]) -> T:
        """Runs `work` on a connection in autocommit mode. It may run twice if the connection is lost, and
        the first run may have taken effect, so running twice must have the same effect as once."""
        return await self._with_connection(work, STATEMENT_TIMEOUT)

    async def rows(self, query: str, values: Any = None) -> list[tuple[Any, ...]]:
        """Returns all rows of one query."""
        return await self.run(lambda it: it.rows(query, values))

    async def change(self, statement: str, values: Any = None, *, again: bool = True) -> int:
        """Runs one statement in a transaction and returns how many rows it touched."""
        return await self.transaction(lambda it: it.change(statement, values), again=again)

    async def snapshot(self, work: Work[T]) -> T:
        """Runs `work` so that all its statements see the same state. For reading only."""
        return await self._with_connection(lambda it: _in_transaction(it, _SNAPSHOT, work), STATEMENT_TIMEOUT)

    async def transaction(self, work: Work[T], *, again: bool = True) -> T:
        """Runs `work` in a transaction. With `again=False` it is not repeated: a lost connection is an
        error, and then it is unknown if the transaction was committed."""
        begin = (
            f"BEGIN; SET LOCAL lock_timeout = {int(LOCK_TIMEOUT * 1000)};"
            f" SET LOCAL idle_in_transaction_session_timeout = {int(SILENCE_TIMEOUT * 1000)}"
        ).encode()
        return await self._with_connection(
            lambda it: _in_transaction(it, begin, work), TRANSACTION_TIMEOUT, again
        )

    async def _with_connection(self, work: Work[T], patience: float, again: bool = True) -> T:
        tries = 0
        while True:
            tries += 1
            try:
                async with asyncio.timeout(patience), self._connection() as connection:
                    try:
                        return await work(Statements(connection, self.sql, tries))
                    except psycopg.OperationalError as error:
                        if not again or not _is_lost(connection, error):
                            raise
                        again = False
            except TimeoutError:
                raise no_answer(patience, self.address) from None
            except psycopg.Error as error:
                raise store_error(error, self.address) from None

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncGenerator[Connection]:
        self._refuse_closed()
        async with self._places:
            connection = await self._idle_connection() or await self._connect()
            try:
                yield connection
            finally:
                if self._closed or connection.pgconn.transaction_status != TransactionStatus.IDLE:
                    await connection.close()
                else:
                    self._idle.append((connection, time.monotonic()))

    async def _idle_connection(self) -> Connection | None:
        oldest = time.monotonic() - IDLE_LIMIT
        while self._idle and self._idle[0][1] < oldest:
            await self._idle.pop(0)[0].close()
        while self._idle:
            connection, _ = self._idle.pop()
            if not _has_news(connection):
                return connection
            await connection.close()
        return None

    async def _connect(self) -> Connection:
        self._refuse_closed()
        deadline = time.monotonic() + START_PATIENCE
        waits = itertools.chain((0.05, 0.1, 0.2), itertools.repeat(0.5))
        while True:
            try:
                connection = await AsyncConnection.connect(self.address.conninfo, autocommit=True)
            except psycopg.Error as error:
                comes_back = is_starting(error) or (self._was_reached and is_recovering(error))
                if not comes_back or time.monotonic() > deadline:
                    raise connection_failed(error, self.address) from None
            else:
                self._was_reached = True
                return connection
            await asyncio.sleep(next(waits))

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StoreError("the store was closed", hint="open Spindle again")

    async def close(self) -> None:
        """Closes idle connections now, and those in use when their work ends."""
        self._closed = True
        while self._idle:
            await self._idle.pop()[0].close()


_SNAPSHOT = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


async def _in_transaction(statements: Statements, begin: bytes, work: Work[T]) -> T:
    connection = statements.connection
    await connection.execute(begin)
    try:
        outcome = await work(statements)
        await connection.execute("COMMIT")
    except Exception:
        if not connection.closed:
            with contextlib.suppress(psycopg.Error):
                await connection.execute("ROLLBACK")
        raise
    return outcome


def _is_lost(connection: Connection, error: psycopg.OperationalError) -> bool:
    # A backend that is shut down says so (57P01 to 57P03) before it hangs up.
    return connection.closed or (error.sqlstate or "").startswith("57P0")


def _has_news(connection: Connection) -> bool:
    """True if the server sent something unasked: usually that it ended the connection."""
    if connection.closed:
        return True
    watch = select.poll()
    watch.register(connection.pgconn.socket, select.POLLIN)
    return bool(watch.poll(0))
