"""Small writes to SQLite on the event loop, wherever that needs no waiting: the way through a thread takes
five times as long, and every call and every step of a run waits for its record."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from spindle.stores.rows import CALL
from spindle.stores.worker import Worker

T = TypeVar("T")

TIDY_EVERY = 256
"""Commits between two that go through the thread."""

Row = tuple[Any, ...]
INSERT = f"INSERT INTO calls ({', '.join(CALL)}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """The outcome of a write that is committed."""

    outcome: T


class _Written:
    """Waits for nothing: it is done."""

    def __await__(self) -> Iterator[Any]:
        return iter(())


WRITTEN: Awaitable[None] = cast("Awaitable[None]", _Written())


class WritesAtOnce:
    """Writes with the connection of the event loop, which waits neither for locks nor for the disk."""

    def __init__(self) -> None:
        self.connection: sqlite3.Connection | None = None
        self._count = 0

    def attempt(self, work: Callable[[sqlite3.Connection], T]) -> Done[T] | None:
        """Commits a write. Returns None if it was not made, because of a lock or an error: the thread waits
        for the one, and reports the other."""
        self._count += 1
        # Now and then the thread commits, because that moves the log into the file.
        if self.connection is None or self._count % TIDY_EVERY == 0:
            return None
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            outcome = work(self.connection)
            self.connection.execute("COMMIT")
        except BaseException as error:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            if isinstance(error, Exception):
                return None
            raise
        return Done(outcome)

    def insert(self, statement: str, row: Row) -> bool:
        """The same for one row."""
        return self.change(statement, row) is not None

    def change(self, statement: str, values: Row) -> int | None:
        """The same for one statement: how many rows it changed."""
        self._count += 1
        if self.connection is None or self._count % TIDY_EVERY == 0:
            return None
        try:
            return self.connection.execute(statement, values).rowcount
        except sqlite3.Error:
            return None


class CallRows:
    """Writes the rows of call records. Each `save` returns only after its row is committed."""

    def __init__(self, at_once: WritesAtOnce, writer: Worker) -> None:
        self._at_once = at_once
        self._writer = writer
        self._waiting: list[tuple[Row, asyncio.Future[None]]] = []

    def save(self, row: Row, *, together: bool) -> Awaitable[None]:
        """`together`: it waits for others of this turn of the event loop, and shares their commit."""
        if together:
            return self._with_others(row)
        return WRITTEN if self._at_once.insert(INSERT, row) else self._through_thread(row)

    def _with_others(self, row: Row) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self.flush)
        written: asyncio.Future[None] = loop.create_future()
        self._waiting.append((row, written))
        return written

    async def close(self) -> None:
        """Hands over what waits. The thread writes the rest before it ends."""
        if self._waiting:
            self.flush()
            await asyncio.sleep(0)

    def flush(self) -> None:
        """Commits all that came in this turn of the event loop."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        if self._at_once.attempt(lambda db: db.executemany(INSERT, [row for row, _ in waiting])) is not None:
            for _, written in waiting:
                if not written.done():
                    written.set_result(None)
            return
        for row, written in waiting:
            # One by one: each is told of its own fault.
            asyncio.ensure_future(self._through_thread(row)).add_done_callback(
                lambda done, written=written: _pass_on(done, written)
            )

    async def _through_thread(self, row: Row) -> None:
        await self._writer.run(lambda db: db.execute(INSERT, row) and None)


def _pass_on(done: asyncio.Future[None], written: asyncio.Future[None]) -> None:
    if done.cancelled():
        written.cancel()
    elif written.done():
        done.exception()  # whoever waited has gone
    elif (error := done.exception()) is not None:
        written.set_exception(error)
    else:
        written.set_result(None)
