"""Secrets, stored as others have encrypted them, and locks between processes, in PostgreSQL."""

from __future__ import annotations

from spindle.domain.identity import Secret
from spindle.stores.postgres.connection import Statements
from spindle.stores.postgres.queries import PostgresQueries
from spindle.stores.run_rows import secret_row
from spindle.stores.sql_secrets import ACQUIRE, DELETE_SAME, INSERT_SECRET, SqlSecrets


class PostgresSecrets(PostgresQueries, SqlSecrets):
    """The parts of the store that `SecretStore` and `LeaseStore` describe."""

    _acquire = ACQUIRE + "held.until <= {now}"

    async def swap_secret(self, old: Secret, new: Secret | None) -> bool:
        async def work(it: Statements) -> bool:
            found = await it.change(DELETE_SAME, secret_row(old))
            if found and new is not None:
                await it.change(INSERT_SECRET, secret_row(new))
            return found == 1

        # Not repeated: after a lost answer it would take its own change for another's.
        # The caller gets an error, and knows that the swap may have happened.
        return await self._db.transaction(work, again=False)
