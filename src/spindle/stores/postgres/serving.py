"""The state that servers share, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

from spindle.domain.audit import AuditEntry
from spindle.ports.serving_store import QuotaHold, QuotaRefusal, QuotaUse
from spindle.stores.postgres.connection import Statements
from spindle.stores.postgres.queries import PostgresQueries
from spindle.stores.sql_serving import HOLD, HOLD_WAIT, INSERT_AUDIT, TAKE, WHOLE_AT, SqlServing, audit_row


class _RefusedError(Exception):
    """Rolls back what was taken before a quota refused."""

    def __init__(self, refusal: QuotaRefusal) -> None:
        super().__init__(refusal.key)
        self.refusal = refusal


class PostgresServing(PostgresQueries, SqlServing):
    """The parts of the store that `AuditStore`, `AccessStore` and `QuotaStore` describe."""

    is_server = True

    async def append_audit(self, entries: Sequence[AuditEntry]) -> None:
        rows = [audit_row(entry) for entry in entries]
        await self._db.transaction(lambda it: it.change_each(INSERT_AUDIT, rows), again=False)

    async def take_quota(
        self, uses: Sequence[QuotaUse], holds: Sequence[QuotaHold], holder: str, lease: float, now: float
    ) -> QuotaRefusal | None:
        async def work(it: Statements) -> None:
            for use in uses:
                values = {"key": use.key, "seconds": use.seconds, "room": use.room, "now": now}
                if not await it.change(TAKE, values):
                    ((whole_at,),) = await it.rows(WHOLE_AT, {"key": use.key})
                    raise _RefusedError(QuotaRefusal(use.key, whole_at + use.seconds - now - use.room))
            for hold in holds:
                # Two that count at the same moment must not both find the last place free.
                await it.change(
                    "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"quota {hold.key}",)
                )
                values = {
                    "key": hold.key, "holder": holder, "most": hold.most, "now": now, "until": now + lease,
                }  # fmt: skip
                if not await it.change(HOLD, values):
                    raise _RefusedError(QuotaRefusal(hold.key, HOLD_WAIT))

        try:
            await self._db.transaction(work, again=False)
        except _RefusedError as refused:
            return refused.refusal
        return None
