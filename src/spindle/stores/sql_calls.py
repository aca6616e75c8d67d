"""Records of calls and cached results, as every store of ours reads them."""

from __future__ import annotations

import math
from typing import Any

from spindle.auth.details import CLEAR
from spindle.domain.call import CallRecord, Result
from spindle.domain.json_schema import from_json
from spindle.errors import NotFoundError
from spindle.ports.store import DetailForm
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
        self, *, limit: int, tool: str | None = None, outcome: str | None = None
    ) -> list[CallRecord]:
        values = {"tool": tool, "outcome": outcome, "limit": limit if limit >= 0 else NO_LIMIT}
        return [record_from_row(row, self._seal) for row in await self._rows(_SELECT_NEWEST, values)]

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
_SELECT_NEWEST = f"""
    {_SELECT}
    WHERE (CAST(:tool AS TEXT) IS NULL OR tool = :tool)
      AND (CAST(:outcome AS TEXT) IS NULL OR outcome = :outcome
           OR (:outcome = 'failed' AND outcome NOT IN ('ok', 'cached')))
    ORDER BY id DESC LIMIT :limit
"""
