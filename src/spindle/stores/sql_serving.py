"""The audit log, tokens, groups and quotas of administrators, and what quotas count, as in every store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spindle.domain.json_schema import from_json, to_json
from spindle.stores.sql import NO_LIMIT, Change, SqlQueries, insert, select

if TYPE_CHECKING:
    from spindle.domain.access_entry import AccessEntry, AccessKind
    from spindle.domain.audit import AuditEntry, AuditFilter
    from spindle.ports.serving_store import QuotaUse

AUDIT = (
    "at", "action", "target", "principal", "allowed", "outcome", "reason", "door", "address", "call",
)  # fmt: skip
"""The columns of the audit log that entries bring, in the order of their fields; `id` follows."""
_ENTRY = ("kind", "name", "body", "updated_at", "updated_by")


class SqlServing(SqlQueries):
    """The parts of the store that `AuditStore` and `AccessStore` describe."""

    async def audit(self, where: AuditFilter, *, limit: int, after: int | None = None) -> list[AuditEntry]:
        values: dict[str, Any] = {
            "principal": where.principal,
            "action": where.action,
            "inner": None if where.action is None else f"{where.action}.",
            "inner_end": None if where.action is None else f"{where.action}/",
            "target": where.target,
            "allowed": where.allowed,
            "since": where.since,
            "until": where.until,
            "after": after or 0,
            "limit": limit if limit >= 0 else NO_LIMIT,
        }
        rows = await self._rows(_AUDIT_NEWEST if after is None else _AUDIT_AFTER, values)
        return [_audit_from_row(row) for row in rows]

    async def access_version(self) -> int:
        rows = await self._rows("SELECT value FROM {schema}.meta WHERE key = 'access_version'")
        return rows[0][0]

    async def access_entries(self) -> list[AccessEntry]:
        from spindle.domain.access_entry import AccessEntry

        rows = await self._rows(f"{select('access_entries', _ENTRY)} ORDER BY kind, name")
        return [AccessEntry(kind, name, from_json(body), at, by) for kind, name, body, at, by in rows]

    async def put_access_entry(self, entry: AccessEntry, audit: AuditEntry, *, new: bool = False) -> bool:
        row = {
            "kind": entry.kind,
            "name": entry.name,
            "body": to_json(entry.body),
            "updated_at": entry.updated_at,
            "updated_by": entry.updated_by,
        }
        return await self._noted_change(_ADD_ENTRY if new else _PUT_ENTRY, row, audit)

    async def delete_access_entry(self, kind: AccessKind, name: str, audit: AuditEntry) -> bool:
        statement = "DELETE FROM {schema}.access_entries WHERE kind = :kind AND name = :name"
        return await self._noted_change(statement, {"kind": kind, "name": name}, audit)

    async def _noted_change(self, statement: str, values: dict[str, Any], audit: AuditEntry) -> bool:
        """Makes a change that is noted in the audit log and counted, all or nothing."""
        changes: list[Change] = [(statement, values), (_BUMP, {}), (INSERT_AUDIT, audit_row(audit))]
        return await self._change_all(changes, only_if_first=True)

    async def charge_quota(self, use: QuotaUse, now: float) -> None:
        await self._change(
            _CHARGE, {"key": use.key, "seconds": use.seconds, "room": use.room, "now": now}, again=False
        )

    async def renew_quota_holds(self, holders: Sequence[str], lease: float, now: float) -> None:
        for holder in holders:
            await self._change(
                "UPDATE {schema}.quota_holds SET until = :until WHERE holder = :holder",
                {"until": now + lease, "holder": holder},
            )

    async def release_quota_holds(self, holder: str) -> None:
        await self._change("DELETE FROM {schema}.quota_holds WHERE holder = :holder", {"holder": holder})

    async def forget_quotas(self, now: float) -> None:
        await self._change("DELETE FROM {schema}.quota_use WHERE whole_at < :now", {"now": now})
        await self._change("DELETE FROM {schema}.quota_holds WHERE until < :now", {"now": now})


def audit_row(entry: AuditEntry) -> dict[str, Any]:
    """Returns an entry of the audit log as the store keeps it."""
    return dict(zip(AUDIT, entry, strict=False))


def _audit_from_row(row: Sequence[Any]) -> AuditEntry:
    from spindle.domain.audit import AuditEntry

    found = AuditEntry(*row)
    return found._replace(allowed=bool(found.allowed))


INSERT_AUDIT = insert("audit", AUDIT)
_FITS = f"""
    {select("audit", (*AUDIT, "id"))}
    WHERE (CAST(:principal AS TEXT) IS NULL OR principal = :principal)
      AND (CAST(:action AS TEXT) IS NULL OR action = :action OR (action >= :inner AND action < :inner_end))
      AND (CAST(:target AS TEXT) IS NULL OR target = :target)
      AND (CAST(:allowed AS BOOLEAN) IS NULL OR allowed = :allowed)
      AND (CAST(:since AS DOUBLE PRECISION) IS NULL OR at >= :since)
      AND (CAST(:until AS DOUBLE PRECISION) IS NULL OR at < :until)
"""
_AUDIT_NEWEST = f"{_FITS} ORDER BY id DESC LIMIT :limit"
_AUDIT_AFTER = f"{_FITS} AND id > :after ORDER BY id LIMIT :limit"
_ADD_ENTRY = f"{insert('access_entries', _ENTRY)} ON CONFLICT (kind, name) DO NOTHING"
_PUT_ENTRY = f"""
    {insert("access_entries", _ENTRY)} ON CONFLICT (kind, name) DO UPDATE SET body = excluded.body,
        updated_at = excluded.updated_at, updated_by = excluded.updated_by
"""
_BUMP = "UPDATE {schema}.meta SET value = value + 1 WHERE key = 'access_version'"

HOLD_WAIT = 1.0
"""Seconds after which to ask again for one of several places: nobody knows when one will be free."""
WHOLE_AT = "SELECT whole_at FROM {schema}.quota_use WHERE key = :key"
_LATER = """
    INSERT INTO {schema}.quota_use AS used (key, whole_at)
    VALUES (:key, CAST(:now AS DOUBLE PRECISION) + CAST(:seconds AS DOUBLE PRECISION))
    ON CONFLICT (key) DO UPDATE SET whole_at = CAST(:seconds AS DOUBLE PRECISION)
        + CASE WHEN used.whole_at < CAST(:now AS DOUBLE PRECISION)
               THEN CAST(:now AS DOUBLE PRECISION) ELSE used.whole_at END
"""
TAKE = f"""
    {_LATER}
    WHERE used.whole_at <= CAST(:now AS DOUBLE PRECISION)
       OR used.whole_at + CAST(:seconds AS DOUBLE PRECISION)
          <= CAST(:now AS DOUBLE PRECISION) + CAST(:room AS DOUBLE PRECISION) * 1.000001
"""
_CHARGE = _LATER
HOLD = """
    INSERT INTO {schema}.quota_holds (key, holder, until)
    SELECT CAST(:key AS TEXT), CAST(:holder AS TEXT), CAST(:until AS DOUBLE PRECISION)
    WHERE (SELECT count(*) FROM {schema}.quota_holds
           WHERE key = :key AND until > CAST(:now AS DOUBLE PRECISION)) < :most
"""
