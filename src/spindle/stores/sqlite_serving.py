"""The state that servers share, in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spindle.ports.serving_store import QuotaHold, QuotaRefusal, QuotaUse
from spindle.stores.rows import storable
from spindle.stores.sql_serving import AUDIT, HOLD, HOLD_WAIT, TAKE, WHOLE_AT, SqlServing
from spindle.stores.sqlite_insert import RowInsert
from spindle.stores.sqlite_queries import SqliteQueries, sql

if TYPE_CHECKING:
    from spindle.domain.audit import AuditEntry

_APPEND = RowInsert("audit", AUDIT)


def _audit_row(entry: AuditEntry) -> tuple[Any, ...]:
    at, action, target, principal, allowed, outcome, reason, door, address, call, _ = entry
    row = at, action, target, principal, int(allowed), outcome, reason, door, address, call
    # Every call has an entry: those that need no escapes, as nearly all, are taken as they are.
    if f"{principal}{target}{reason}{address}".isascii():
        return row
    return tuple(storable(cell) if isinstance(cell, str) else cell for cell in row)


class SqliteServing(SqliteQueries, SqlServing):
    """The parts of the store that `AuditStore`, `AccessStore` and `QuotaStore` describe."""

    is_server = False

    async def append_audit(self, entries: Sequence[AuditEntry]) -> None:
        rows = [_audit_row(entry) for entry in entries]
        await self._writer.run(lambda db: _APPEND.add(db, rows))

    async def take_quota(
        self, uses: Sequence[QuotaUse], holds: Sequence[QuotaHold], holder: str, lease: float, now: float
    ) -> QuotaRefusal | None:
        def work(db: sqlite3.Connection) -> QuotaRefusal | None:
            db.execute("SAVEPOINT quota")
            refusal = _taken(db, uses, holds, holder, lease, now)
            if refusal is not None:
                db.execute("ROLLBACK TO quota")
            db.execute("RELEASE quota")
            return refusal

        return await self._writer.run(work)


def _taken(
    db: sqlite3.Connection,
    uses: Sequence[QuotaUse],
    holds: Sequence[QuotaHold],
    holder: str,
    lease: float,
    now: float,
) -> QuotaRefusal | None:
    for use in uses:
        values = {"key": use.key, "seconds": use.seconds, "room": use.room, "now": now}
        if not db.execute(sql(TAKE), values).rowcount:
            (whole_at,) = db.execute(sql(WHOLE_AT), {"key": use.key}).fetchone()
            return QuotaRefusal(use.key, whole_at + use.seconds - now - use.room)
    for hold in holds:
        values = {"key": hold.key, "holder": holder, "most": hold.most, "now": now, "until": now + lease}
        if not db.execute(sql(HOLD), values).rowcount:
            return QuotaRefusal(hold.key, HOLD_WAIT)
    return None
