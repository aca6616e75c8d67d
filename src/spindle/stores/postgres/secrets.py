"""Secrets, stored as others have encrypted them, and locks between processes, in PostgreSQL."""

from __future__ import annotations

from spindle.domain.identity import Secret
from spindle.stores.postgres.connection import Connection
from spindle.stores.postgres.queries import PostgresQueries
from spindle.stores.postgres.text import storable_values
from spindle.stores.run_rows import secret_row
from spindle.stores.sql_secrets import DELETE_SAME, INSERT_SECRET, SqlSecrets


class PostgresSecrets(PostgresQueries, SqlSecrets):
    """The parts of the store that `SecretStore` and `LeaseStore` describe."""

    async def swap_secret(self, old: Secret, new: Secret) -> bool:
        async def work(connection: Connection) -> bool:
            found = await connection.execute(self._db.sql(DELETE_SAME), storable_values(secret_row(old)))
            if found.rowcount:
                await connection.execute(self._db.sql(INSERT_SECRET), storable_values(secret_row(new)))
            return found.rowcount == 1

        # Not repeated: after a lost answer it would take its own change for another's.
        # The caller gets an error, and knows that the swap may have happened.
        return await self._db.transaction(work, again=False)
