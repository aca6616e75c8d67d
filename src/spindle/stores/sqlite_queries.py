"""Single statements in SQLite: reading in one thread, changes in another."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from spindle.ports.store import LEASE
from spindle.stores.rows import storable
from spindle.stores.sql import NO_VALUES, Change, Row, SqlQueries, Values
from spindle.stores.worker import Worker

if TYPE_CHECKING:
    import sqlite3

CLOCK = "machine_clock"
"""The clock by which leases end: seconds since the machine started. All processes that share a SQLite file
see the same, and neither a correction of the time of day nor a sleep of the machine moves it."""
ENDED = f"({{end}} <= {CLOCK}() OR {{end}} > {CLOCK}() + max(:lease, {LEASE}))"
"""A lease ends further ahead than any can if the machine has started anew since: its holder is gone. Whoever
asks may have shorter leases than the holder, so the usual length counts."""


class SqliteQueries(SqlQueries):
    """Runs single statements in the threads of a store."""

    _reader: Worker
    _writer: Worker

    async def _rows(self, query: str, values: Values = NO_VALUES) -> list[Row]:
        stored = storable_values(values)
        return await self._reader.run(lambda db: db.execute(sql(query), stored).fetchall())

    async def _change(self, statement: str, values: Values = NO_VALUES, *, again: bool = True) -> int:
        stored = storable_values(values)
        return await self._writer.run(lambda db: db.execute(sql(statement), stored).rowcount)

    async def _change_all(self, changes: Sequence[Change], *, only_if_first: bool = False) -> bool:
        stored = [(sql(statement), storable_values(values)) for statement, values in changes]

        def work(db: sqlite3.Connection) -> bool:
            for number, (statement, values) in enumerate(stored):
                touched = db.execute(statement, values).rowcount
                if only_if_first and number == 0 and not touched:
                    return False
            return True

        return await self._writer.run(work)


@cache
def sql(text: str) -> str:
    """The statement for SQLite. The text must be a constant of ours."""
    return text.replace("{schema}", "main").replace("{now}", f"{CLOCK}()")


def storable_values(values: Values) -> dict[str, Any]:
    """The values with all their texts made storable."""
    return {name: storable(value) if isinstance(value, str) else value for name, value in values.items()}
