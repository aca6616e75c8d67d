"""Schedules in PostgreSQL, by the clock of its server."""

from __future__ import annotations

from spindle.stores.postgres.queries import PostgresQueries
from spindle.stores.sql_schedules import SqlSchedules


class PostgresSchedules(PostgresQueries, SqlSchedules):
    """The part of the store that `ScheduleStore` describes."""

    async def time(self) -> float:
        return (await self._rows("SELECT {now}"))[0][0]
