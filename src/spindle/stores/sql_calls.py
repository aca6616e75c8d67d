"""Records of calls and cached results, as every store of ours reads them."""

from __future__ import annotations

from spindle.domain.call import CallRecord, Result
from spindle.domain.json_schema import from_json
from spindle.errors import NotFoundError
from spindle.stores.rows import CALL, record_from_row
from spindle.stores.sql import NO_LIMIT, SqlQueries, select


class SqlCalls(SqlQueries):
    """The parts of `CallStore` and `CacheStore` that run one statement."""

    async def calls(
        self, *, limit: int, tool: str | None = None, outcome: str | None = None
    ) -> list[CallRecord]:
        values = {"tool": tool, "outcome": outcome, "limit": limit if limit >= 0 else NO_LIMIT}
        return [record_from_row(row) for row in await self._rows(_SELECT_NEWEST, values)]

    async def call(self, key: str) -> CallRecord | None:
        # A range over the index of keys, instead of reading every record.
        query = f"{_SELECT} WHERE key >= :first AND key < :last ORDER BY key LIMIT 2"
        rows = await self._rows(query, {"first": key, "last": f"{key}\U0010ffff"})
        if len(rows) > 1 and rows[0][0] != key:
            raise NotFoundError(f"several calls begin with {key!r}", hint="give more characters of the key")
        return record_from_row(rows[0]) if rows else None

    async def cached(self, key: str, now: float) -> Result | None:
        query = "SELECT result FROM {schema}.cache WHERE key = :key AND expires_at > :now"
        rows = await self._rows(query, {"key": key, "now": now})
        return Result.from_dict(from_json(rows[0][0]), cached=True) if rows else None

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
