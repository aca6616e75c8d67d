"""Single statements in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

from spindle.stores.postgres.connection import Database, Statements
from spindle.stores.sql import NO_VALUES, Change, Row, SqlQueries, Values


class PostgresQueries(SqlQueries):
    """Runs single statements of the parts of a store, in its one database."""

    _db: Database

    async def _rows(self, query: str, values: Values = NO_VALUES) -> list[Row]:
        return await self._db.rows(query, values or None)

    async def _change(self, statement: str, values: Values = NO_VALUES, *, again: bool = True) -> int:
        return await self._db.change(statement, values or None, again=again)

    async def _change_all(self, changes: Sequence[Change], *, only_if_first: bool = False) -> bool:
        async def work(it: Statements) -> bool:
            for number, (statement, values) in enumerate(changes):
                touched = await it.change(statement, values or None)
                if only_if_first and number == 0 and not touched:
                    return False
            return True

        return await self._db.transaction(work, again=False)
