"""Removing records, in PostgreSQL. Rows that another process is removing right now are skipped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spindle.ports.store import RecordKind, Removed
from spindle.stores.postgres.connection import Statements
from spindle.stores.postgres.queries import PostgresQueries
from spindle.stores.sql_retention import ANNOUNCE, ENDED, EVENTS_AT_ONCE, SqlRetention


class PostgresRetention(PostgresQueries, SqlRetention):
    """The part of the store that `RetentionStore` describes."""

    async def remove(self, kind: RecordKind, keys: Sequence[int | str]) -> Removed:
        given = {"keys": list(keys)}
        if kind == "runs":
            return await self._db.transaction(lambda it: _remove_runs(it, given))
        if kind == "audit":
            await self._change(ANNOUNCE, {"last": max(map(int, keys), default=0)})
        return Removed(await self._change(_DELETE[kind], given))

    async def size(self) -> int:
        ((size,),) = await self._rows(_SIZE)
        return int(size)

    async def give_space_back(self, *, all_at_once: bool = False) -> bool:
        return False  # the server's own autovacuum does it


async def _remove_runs(it: Statements, given: dict[str, Any]) -> Removed:
    ended = {"keys": [id for (id,) in await it.rows(_LOCK_ENDED, given)]}
    if await it.change(_DELETE_EVENTS, ended) >= EVENTS_AT_ONCE:
        # Without all its events a run must not be resumed: it would make its steps again.
        await it.change("UPDATE {schema}.runs SET status = 'failed' WHERE id = ANY(:keys)", ended)
        return Removed(0, more=True)
    await it.change("DELETE FROM {schema}.pauses WHERE run = ANY(:keys)", ended)
    return Removed(await it.change("DELETE FROM {schema}.runs WHERE id = ANY(:keys)", ended))


_SIZE = (
    "SELECT COALESCE(sum(pg_total_relation_size(oid)), 0) FROM pg_class"
    " WHERE relkind = 'r' AND relnamespace = '{schema}'::regnamespace"
)
_DELETE = {
    "calls": """
        DELETE FROM {schema}.calls WHERE id IN
            (SELECT id FROM {schema}.calls WHERE id = ANY(:keys) FOR UPDATE SKIP LOCKED)
    """,
    "audit": """
        DELETE FROM {schema}.audit WHERE id IN
            (SELECT id FROM {schema}.audit WHERE id = ANY(:keys) FOR UPDATE SKIP LOCKED)
    """,
    "events": """
        DELETE FROM {schema}.run_events WHERE number IN
            (SELECT number FROM {schema}.run_events WHERE number = ANY(:keys) FOR UPDATE SKIP LOCKED)
    """,
    "cache": """
        DELETE FROM {schema}.cache WHERE key IN
            (SELECT key FROM {schema}.cache WHERE key = ANY(:keys) FOR UPDATE SKIP LOCKED)
    """,
}
_LOCK_ENDED = f"SELECT id FROM {{schema}}.runs WHERE id = ANY(:keys) AND {ENDED} FOR UPDATE SKIP LOCKED"  # noqa: S608
_DELETE_EVENTS = f"""
    DELETE FROM {{schema}}.run_events WHERE number IN
        (SELECT number FROM {{schema}}.run_events WHERE run = ANY(:keys) LIMIT {EVENTS_AT_ONCE})
"""  # noqa: S608 - only constants
