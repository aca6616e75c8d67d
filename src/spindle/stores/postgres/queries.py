"""Single statements in PostgreSQL."""

from __future__ import annotations

from spindle.stores.postgres.connection import Database
from spindle.stores.sql import NO_VALUES, Row, SqlQueries, Values


class PostgresQueries(SqlQueries):
    """Runs single statements of the parts of a store, in its one database."""

    _db: Database

    async def _rows(self, query: str, values: Values = NO_VALUES) -> list[Row]:
        return await self._db.rows(query, values or None)

    async def _change(self, statement: str, values: Values = NO_VALUES, *, again: bool = True) -> int:
        return await self._db.change(statement, values or None, again=again)
