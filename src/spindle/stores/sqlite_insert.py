"""Rows added to a table of SQLite, many with one statement.

After each statement a thread waits for its turn to run Python again. Beside an event loop that has work to do
this takes longer than the row, and holds up the loop too.

A value that is no number, text or `bytearray` costs Python's module more than all else: it looks for adapters
of its type. So columns at the end that are empty are left out.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import chain, groupby
from typing import Any, Final

Row = tuple[Any, ...]

MOST_VALUES: Final = 2560
"""Values of one statement. Builds of SQLite are in use that take no more than 999."""


class RowInsert:
    """Adds rows to one table. All names are constants of ours."""

    def __init__(self, table: str, columns: Sequence[str], optional: int = 0) -> None:
        """`optional`: that many columns at the end are empty in most rows."""
        self._width = len(columns)
        self._required = len(columns) - optional
        self._empty = (None,) * optional
        self._short = RowInsert(table, columns[: self._required]) if optional else self
        self._row = f"({', '.join('?' * len(columns))})"
        self.one = f"INSERT INTO {table} ({', '.join(columns)}) VALUES {self._row}"  # noqa: S608 - constants
        """The statement for one row."""
        self._many: dict[int, str] = {}
        """By number of rows."""

    def add(self, db: sqlite3.Connection, rows: Sequence[Row]) -> None:
        """Adds the rows in their order, as a part of the transaction that is open."""
        if not self._empty:
            self._add(db, rows)
            return
        for is_short, some in groupby(rows, key=lambda row: row[self._required :] == self._empty):
            if is_short:
                self._short.add(db, [row[: self._required] for row in some])
            else:
                self._add(db, list(some))

    def _add(self, db: sqlite3.Connection, rows: Sequence[Row]) -> None:
        most = min(MOST_VALUES, db.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER)) // self._width
        place = 0
        while (left := min(len(rows) - place, most)) > 1:
            # Powers of two, so that few statements are ever made.
            size = 1 << left.bit_length() - 1
            some = rows[place : place + size]
            db.execute(self._statement(size), tuple(chain.from_iterable(some)))
            place += size
        db.executemany(self.one, rows[place:])

    def _statement(self, rows: int) -> str:
        known = self._many.get(rows)
        if known is None:
            known = self._many[rows] = self.one + f", {self._row}" * (rows - 1)
        return known
