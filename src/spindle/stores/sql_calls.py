"""Records of calls and cached results, as every store of ours reads them."""

from __future__ import annotations

import math
from typing import Any

from spindle.auth.details import CLEAR
from spindle.domain.call import CallRecord, Result
from spindle.domain.json_schema import from_json
from spindle.domain.records import fields_of
from spindle.errors import NotFoundError
from spindle.ports.store import ANY_CALL, CallFilter, CallTiming, DetailForm
from spindle.stores.rows import CALL, cache_blob, record_from_row, row_from_record, without_details
from spindle.stores.sql import NO_LIMIT, SqlQueries, select


class SqlCalls(SqlQueries):
    """The parts of `CallStore` and `CacheStore` that run one statement."""

    _history: DetailForm = "sealed"
    _caching: DetailForm = "sealed"

    def keep_details(self, *, history: DetailForm, cache: DetailForm) -> None:
        self._history, self._caching = history, cache

    def _call_row(self, record: CallRecord) -> tuple[Any, ...]:
        kept = without_details(record) if self._history == "off" else record
        return row_from_record(kept, self._seal if self._history == "sealed" else CLEAR)

    def _cache_blob(self, key: str, result: Result) -> bytes | None:
        if self._caching == "off":
            return None
        return cache_blob(key, result, self._seal if self._caching == "sealed" else CLEAR)

    async def calls(
        self,
        *,
        limit: int,
        tool: str | None = None,
        outcome: str | None = None,
        where: CallFilter = ANY_CALL,
    ) -> list[CallRecord]:
        given: dict[str, Any] = {"tool": tool, "outcome": outcome, **fields_of(where)}
        given = {name: value for name, value in given.items() if value is not None}
        conditions = " AND ".join(_CONDITIONS[name] for name in given) or "1 = 1"
        query = f"{_SELECT} WHERE {conditions} ORDER BY id DESC LIMIT :limit"
        values = {**given, "limit": limit if limit >= 0 else NO_LIMIT}
        return [record_from_row(row, self._seal) for row in await self._rows(query, values)]

    async def call_timings(
        self, *, limit: int, since: float, principal: str | None = None, source: str | None = None
    ) -> list[CallTiming]:
        values = {"limit": limit, "since": since, "principal": principal, "source": source}
        return [CallTiming(*row) for row in await self._rows(_SELECT_TIMINGS, values)]

    async def call(self, key: str) -> CallRecord | None:
        # A range over the index of keys, instead of reading every record.
        query = f"{_SELECT} WHERE key >= :first AND key < :last ORDER BY key LIMIT 2"
        rows = await self._rows(query, {"first": key, "last": f"{key}\U0010ffff"})
        if len(rows) > 1 and rows[0][0] != key:
            raise NotFoundError(f"several calls begin with {key!r}", hint="give more characters of the key")
        return record_from_row(rows[0], self._seal) if rows else None

    async def cached(self, key: str, now: float, ttl: float | None = None) -> Result | None:
        query = """
            SELECT result FROM {schema}.cache
            WHERE key = :key AND expires_at > :now AND expires_at <= CAST(:latest AS DOUBLE PRECISION)
        """
        latest = math.inf if ttl is None else now + ttl
        rows = await self._rows(query, {"key": key, "now": now, "latest": latest})
        if not rows:
            return None
        blob = self._seal.open(rows[0][0], f"cache:{key}")
        return Result.from_dict(from_json(blob), cached=True)

    async def clear_cache(self) -> int:
        return await self._change("DELETE FROM {schema}.cache")


_SELECT = select("calls", CALL)
_CONDITIONS = {
    "tool": "tool = :tool",
    "outcome": "(outcome = :outcome OR (:outcome = 'failed' AND outcome NOT IN ('ok', 'cached', 'paused')))",
    "source": "source = :source",
    "principal": "principal = :principal",
    "since": "started_at >= :since",
    "until": "started_at < :until",
    "slower": "duration >= :slower",
    "run": "run = :run",
    "before": "id < (SELECT MIN(id) FROM {schema}.calls WHERE key = :before)",
}
# There is no index of times: how far back it looks is bounded by the number of calls.
_SELECT_TIMINGS = """
    SELECT started_at, duration, outcome FROM {schema}.calls
    WHERE id > (SELECT MAX(id) FROM {schema}.calls) - :limit AND started_at >= :since
      AND (CAST(:principal AS TEXT) IS NULL OR principal = :principal)
      AND (CAST(:source AS TEXT) IS NULL OR source = :source)
    ORDER BY id DESC
"""
