"""Small writes to SQLite on the event loop, wherever that needs no waiting: the way through a thread takes
five times as long, and every step of a run waits for its record."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")

TIDY_EVERY = 256
"""Commits between two that go through the thread."""

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """The outcome of a write that is committed."""

    outcome: T


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
