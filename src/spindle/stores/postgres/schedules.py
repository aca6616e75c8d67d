"""Schedules in PostgreSQL, by the clock of its server, and the state of triggers."""

from __future__ import annotations

from spindle.stores.postgres.queries import PostgresQueries
from spindle.stores.sql_schedules import SqlSchedules
from spindle.stores.sql_triggers import SqlTriggers


class PostgresSchedules(PostgresQueries, SqlSchedules, SqlTriggers):
    """The parts of the store that `ScheduleStore` and `TriggerStore` describe."""

    async def time(self) -> float:
        return (await self._rows("SELECT {now}"))[0][0]
