"""Secrets, stored as others have encrypted them, and locks between processes, in SQLite."""

from __future__ import annotations

import sqlite3

from spindle.domain.identity import Secret
from spindle.stores.run_rows import secret_row
from spindle.stores.sql_secrets import DELETE_SAME, INSERT_SECRET, SqlSecrets
from spindle.stores.sqlite_queries import SqliteQueries, sql


class SqliteSecrets(SqliteQueries, SqlSecrets):
    """The parts of the store that `SecretStore` and `LeaseStore` describe."""

    async def swap_secret(self, old: Secret, new: Secret) -> bool:
        def work(db: sqlite3.Connection) -> bool:
            found = db.execute(sql(DELETE_SAME), secret_row(old))
            if found.rowcount:
                db.execute(sql(INSERT_SECRET), secret_row(new))
            return found.rowcount == 1

        return await self._writer.run(work)
