"""Cached results, in PostgreSQL."""

from __future__ import annotations

from spindle.domain.call import Result
from spindle.stores.postgres.connection import Connection
from spindle.stores.postgres.queries import PostgresQueries
from spindle.stores.rows import cache_blob


class PostgresCache(PostgresQueries):
    """Writes to the part of the store that `CacheStore` describes."""

    async def cache(self, key: str, result: Result, expires_at: float, now: float) -> None:
        blob = cache_blob(result)
        if blob is None:
            return

        async def work(connection: Connection) -> None:
            # Not in one transaction: two processes that each renew what the other deletes would block
            # each other.
            await connection.execute(self._db.sql(_DELETE_EXPIRED), (now,))
            await connection.execute(self._db.sql(_UPSERT), (key, blob, expires_at))

        await self._db.run(work)


# Rows that another process is deleting or renewing right now are skipped.
_DELETE_EXPIRED = """
    DELETE FROM {schema}.cache WHERE key IN
        (SELECT key FROM {schema}.cache WHERE expires_at <= %s FOR UPDATE SKIP LOCKED)
"""
_UPSERT = """
    INSERT INTO {schema}.cache (key, result, expires_at) VALUES (%s, %s, %s)
    ON CONFLICT (key) DO UPDATE SET result = excluded.result, expires_at = excluded.expires_at
"""
