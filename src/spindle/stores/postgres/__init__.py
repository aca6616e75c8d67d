"""The store in one schema of a PostgreSQL database, shared by processes on any number of machines."""

from __future__ import annotations

from spindle.errors import StoreError
from spindle.stores.postgres.address import parse
from spindle.stores.postgres.calls import PostgresCalls
from spindle.stores.postgres.connection import Database
from spindle.stores.postgres.migrate import bring_up_to_date, newer
from spindle.stores.postgres.retention import PostgresRetention
from spindle.stores.postgres.runs import PostgresRuns
from spindle.stores.postgres.schedules import PostgresSchedules
from spindle.stores.postgres.secrets import PostgresSecrets
from spindle.stores.postgres.serving import PostgresServing
from spindle.stores.postgres.tools import PostgresTools
from spindle.stores.postgres.vectors import PostgresVectors


class PostgresStore(
    PostgresCalls,
    PostgresTools,
    PostgresRuns,
    PostgresSchedules,
    PostgresSecrets,
    PostgresServing,
    PostgresRetention,
    PostgresVectors,
):
    """Implements the whole store port. Each part is a class of its own that uses one `Database`."""

    def __init__(self, address: str) -> None:
        super().__init__(Database(parse(address)))

    async def open(self) -> PostgresStore:
        """Creates the schema if needed and brings it to the newest version."""
        try:
            await bring_up_to_date(self._db)
        except BaseException:
            await self.close()
            raise
        return self

    async def newer(self) -> StoreError | None:
        return await newer(self._db)

    async def __aenter__(self) -> PostgresStore:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self.finish_records()
        await self._db.close()
