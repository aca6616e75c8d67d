"""The records that pruning looks at and removes, as in every store of ours."""

from __future__ import annotations

from spindle.ports.store import RecordKind, StoredEntry
from spindle.stores.sql import SqlQueries

EVENTS_AT_ONCE = 2000
"""Events of runs in one transaction."""
ENDED = "status IN ('done', 'failed', 'cancelled')"
TRACES, TRACES_END = "trace:", "trace;"
"""The beginning of the `run` of an event that belongs to no run, and what comes after all of these."""
_ROW = 200
"""Bytes of a row besides what is counted."""
ANNOUNCE = """
    UPDATE {schema}.meta SET value = :last WHERE key = 'audit_pruned_to' AND value < :last
"""
"""Says how far the audit log is pruned: the store lets no entry beyond it go."""


class SqlRetention(SqlQueries):
    """The part of `RetentionStore` that runs one statement."""

    async def entries(self, kind: RecordKind, after: StoredEntry | None, limit: int) -> list[StoredEntry]:
        place, key = (after.place, after.key) if after is not None else (float(2**62), "")
        rows = await self._rows(_PAGES[kind], {"place": place, "key": key, "limit": limit})
        return [StoredEntry(float(place), key, at, int(size), bool(go)) for place, key, at, size, go in rows]

    async def forget_leases(self) -> int:
        return await self._change("DELETE FROM {schema}.leases WHERE until <= {now}")


# ruff: noqa: S608 - only constants
_OF_EVENTS = (
    f"SELECT sum(coalesce(length(sealed), 0) + {_ROW}) FROM {{schema}}.run_events WHERE run = runs.id"
)
_OF_PAUSES = f"""
    SELECT sum(coalesce(length(sealed), 0) + coalesce(length(answer), 0) + {_ROW})
    FROM {{schema}}.pauses WHERE run = runs.id
"""
_PAGES: dict[RecordKind, str] = {
    "calls": f"""
        SELECT id, id, started_at,
               length(arguments) + coalesce(length(error), 0) + coalesce(length(result), 0) + {_ROW}, 1 = 1
        FROM {{schema}}.calls WHERE id < CAST(:place AS BIGINT) ORDER BY id DESC LIMIT :limit
    """,
    "runs": f"""
        SELECT number, id, updated_at,
               {_ROW} + coalesce(({_OF_EVENTS}), 0) + coalesce(({_OF_PAUSES}), 0), {ENDED}
        FROM {{schema}}.runs WHERE number < CAST(:place AS BIGINT) ORDER BY number DESC LIMIT :limit
    """,
    "events": f"""
        SELECT number, number, at, coalesce(length(sealed), 0) + {_ROW}, 1 = 1
        FROM {{schema}}.run_events
        WHERE run >= '{TRACES}' AND run < '{TRACES_END}' AND number < CAST(:place AS BIGINT)
        ORDER BY number DESC LIMIT :limit
    """,
    "audit": f"""
        SELECT id, id, at, length(principal) + length(target) + length(reason) + {_ROW}, 1 = 1
        FROM {{schema}}.audit WHERE id < CAST(:place AS BIGINT) ORDER BY id DESC LIMIT :limit
    """,
    "cache": f"""
        SELECT expires_at, key, expires_at, length(result) + {_ROW}, 1 = 1
        FROM {{schema}}.cache WHERE (expires_at, key) < (CAST(:place AS DOUBLE PRECISION), CAST(:key AS TEXT))
        ORDER BY expires_at DESC, key DESC LIMIT :limit
    """,
}
