"""Runs, their events and their pauses, in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from spindle.domain.run import Pause, Run, RunEvent
from spindle.ports.store import Claim
from spindle.stores.rows import storable
from spindle.stores.run_rows import event_row, pause_row, run_row
from spindle.stores.sql_runs import (
    ANSWER_PAUSE,
    CLAIM_RUN,
    INSERT_EVENT,
    INSERT_PAUSE,
    OWN_RUN,
    UPSERT_RUN,
    SqlRuns,
)
from spindle.stores.sqlite_queries import SqliteQueries, sql


class SqliteRuns(SqliteQueries, SqlRuns):
    """The part of the store that `RunStore` describes."""

    async def save_run(self, run: Run, events: Sequence[RunEvent] = (), pauses: Sequence[Pause] = ()) -> None:
        def work(db: sqlite3.Connection) -> None:
            db.execute(sql(UPSERT_RUN), run_row(run))
            db.executemany(sql(INSERT_EVENT), [event_row(event) for event in events])
            db.executemany(sql(INSERT_PAUSE), [pause_row(pause) for pause in pauses])

        await self._writer.run(work)

    async def save_events(self, events: Sequence[RunEvent]) -> None:
        rows = [event_row(event) for event in events]
        await self._writer.run(lambda db: db.executemany(sql(INSERT_EVENT), rows) and None)

    async def claim(
        self, token: str, answer: bytes | None, owner: str, lease_until: float, now: float
    ) -> Claim:
        def work(db: sqlite3.Connection) -> Claim:
            row = db.execute(
                "SELECT run, state, expires_at FROM pauses WHERE token = ?", (storable(token),)
            ).fetchone()
            if row is None:
                return "unknown"
            run, state, expires_at = row
            if state != "waiting":
                return "used"
            if expires_at is not None and expires_at <= now:
                return "expired"
            db.execute(sql(ANSWER_PAUSE), {"answer": answer, "token": token})
            values = {"id": run, "owner": owner, "lease_until": lease_until, "now": now}
            return "claimed" if db.execute(sql(CLAIM_RUN), values).rowcount else "noted"

        return await self._writer.run(work)

    async def take_run(self, id: str, owner: str, lease_until: float, now: float) -> bool:
        resting = "status IN ('paused', 'cancelled') OR (status = 'running' AND lease_until <= :now)"
        values = {"id": id, "owner": owner, "lease_until": lease_until, "now": now}
        return await self._change(f"{OWN_RUN} AND ({resting})", values) == 1
