"""Runs, their events and their pauses, in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from spindle.domain.run import Pause, Run, RunEvent, RunStatus
from spindle.errors import NotFoundError
from spindle.ports.store import Claim
from spindle.stores.rows import storable
from spindle.stores.run_rows import event_row, pause_from_row, pause_row, run_from_row, run_row
from spindle.stores.worker import Worker


class SqliteRuns:
    """The part of the store that `RunStore` describes."""

    _reader: Worker
    _writer: Worker

    async def save_run(self, run: Run, events: Sequence[RunEvent] = (), pauses: Sequence[Pause] = ()) -> None:
        def work(db: sqlite3.Connection) -> None:
            db.execute(_UPSERT_RUN, run_row(run))
            db.executemany(_INSERT_EVENT, [event_row(event) for event in events])
            db.executemany(_INSERT_PAUSE, [pause_row(pause) for pause in pauses])

        await self._writer.run(work)

    async def run(self, id: str) -> Run | None:
        beginning = storable(id)
        query = f"{_SELECT_RUN} WHERE id >= ? AND id < ? ORDER BY id LIMIT 2"
        values = (beginning, beginning + "\U0010ffff")
        rows = await self._reader.run(lambda db: db.execute(query, values).fetchall())
        if len(rows) > 1 and rows[0][0] != id:
            raise NotFoundError(f"several runs begin with {id!r}", hint="give more characters of the id")
        return run_from_row(rows[0]) if rows else None

    async def runs(
        self,
        *,
        limit: int,
        status: RunStatus | None = None,
        principal: str | None = None,
        kind: str | None = None,
        name: str | None = None,
    ) -> list[Run]:
        query = f"""
            {_SELECT_RUN}
            WHERE (:status IS NULL OR status = :status) AND (:principal IS NULL OR principal = :principal)
              AND (:kind IS NULL OR kind = :kind) AND (:name IS NULL OR name = :name)
            ORDER BY number DESC LIMIT :limit
        """
        values = {
            "status": status,
            "principal": principal and storable(principal),
            "kind": kind,
            "name": name and storable(name),
            "limit": limit,
        }
        return await self._reader.run(lambda db: [run_from_row(row) for row in db.execute(query, values)])

    async def save_events(self, events: Sequence[RunEvent]) -> None:
        rows = [event_row(event) for event in events]
        await self._writer.run(lambda db: db.executemany(_INSERT_EVENT, rows) and None)

    async def history(self, run: str) -> list[RunEvent]:
        query = "SELECT run, kind, at, path, sealed, id FROM run_events WHERE run = ? ORDER BY number"
        return await self._reader.run(lambda db: [RunEvent(*row) for row in db.execute(query, (run,))])

    async def pause(self, token: str) -> Pause | None:
        query = f"{_SELECT_PAUSE} WHERE token = ?"
        row = await self._reader.run(lambda db: db.execute(query, (storable(token),)).fetchone())
        return pause_from_row(row) if row else None

    async def pauses(
        self,
        *,
        run: str | None = None,
        principal: str | None = None,
        source: str | None = None,
        waiting: bool = True,
    ) -> list[Pause]:
        query = f"""
            {_SELECT_PAUSE}
            WHERE (:run IS NULL OR run = :run) AND (:principal IS NULL OR principal = :principal)
              AND (:source IS NULL OR source = :source) AND (NOT :waiting OR state = 'waiting')
            ORDER BY number
        """
        values = {
            "run": run,
            "principal": principal and storable(principal),
            "source": source,
            "waiting": waiting,
        }
        return await self._reader.run(lambda db: [pause_from_row(row) for row in db.execute(query, values)])

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
            db.execute("UPDATE pauses SET state = 'answered', answer = ? WHERE token = ?", (answer, token))
            taken = db.execute(
                f"""
                {_TAKE_RUN} AND (status = 'paused' OR (status = 'running' AND lease_until <= :now))
                """,
                {"id": run, "owner": owner, "lease_until": lease_until, "now": now},
            )
            return "claimed" if taken.rowcount else "noted"

        return await self._writer.run(work)

    async def take_run(self, id: str, owner: str, lease_until: float, now: float) -> bool:
        resting = "status IN ('paused', 'cancelled') OR (status = 'running' AND lease_until <= :now)"
        query = f"{_TAKE_RUN} AND ({resting})"
        values = {"id": id, "owner": owner, "lease_until": lease_until, "now": now}
        return await self._writer.run(lambda db: db.execute(query, values).rowcount == 1)

    async def renew_leases(self, owner: str, lease_until: float) -> None:
        query = "UPDATE runs SET lease_until = ? WHERE status = 'running' AND owner = ?"
        await self._writer.run(lambda db: db.execute(query, (lease_until, owner)) and None)


_SELECT_RUN = """
    SELECT id, kind, name, principal, groups, status, created_at, updated_at, error, owner, lease_until
    FROM runs
"""
_UPSERT_RUN = """
    INSERT INTO runs (id, kind, name, principal, groups, status, created_at, updated_at, error, owner,
                      lease_until)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET status = excluded.status, updated_at = excluded.updated_at,
        error = excluded.error, owner = excluded.owner, lease_until = excluded.lease_until
"""
_TAKE_RUN = """
    UPDATE runs SET status = 'running', owner = :owner, lease_until = :lease_until, updated_at = :now
    WHERE id = :id
"""
_INSERT_EVENT = "INSERT INTO run_events (run, kind, at, path, sealed, id) VALUES (?, ?, ?, ?, ?, ?)"
_SELECT_PAUSE = """
    SELECT token, run, path, kind, message, principal, groups, created_at, source, tool, expires_at, state,
           sealed, answer
    FROM pauses
"""
_INSERT_PAUSE = """
    INSERT INTO pauses (token, run, path, kind, message, principal, groups, created_at, source, tool,
                        expires_at, state, sealed, answer)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (token) DO NOTHING
"""
