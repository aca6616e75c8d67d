"""Runs, their events and their pauses, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spindle.domain.run import Pause, Run, RunEvent, RunStatus
from spindle.errors import NotFoundError
from spindle.ports.store import Claim
from spindle.stores.postgres.connection import Connection, Database
from spindle.stores.postgres.text import storable_row, storable_text
from spindle.stores.run_rows import event_row, pause_from_row, pause_row, run_from_row, run_row


class PostgresRuns:
    """The part of the store that `RunStore` describes. Any work may be repeated (`Database.run`), so on
    the second try the effects of this very call count as its own."""

    _db: Database

    async def save_run(self, run: Run, events: Sequence[RunEvent] = (), pauses: Sequence[Pause] = ()) -> None:
        tries = 0

        async def work(connection: Connection) -> None:
            nonlocal tries
            tries += 1
            await connection.execute(self._db.sql(_UPSERT_RUN), storable_row(run_row(run)))
            await self._insert_events(connection, events, tries)
            if pauses:
                rows = [storable_row(pause_row(pause)) for pause in pauses]
                await connection.cursor().executemany(self._db.sql(_INSERT_PAUSE), rows)

        await self._db.transaction(work)

    async def save_events(self, events: Sequence[RunEvent]) -> None:
        tries = 0

        async def work(connection: Connection) -> None:
            nonlocal tries
            tries += 1
            await self._insert_events(connection, events, tries)

        await self._db.transaction(work)

    async def _insert_events(self, connection: Connection, events: Sequence[RunEvent], tries: int) -> None:
        if events:
            # An existing id is a conflict, unless this very call inserted it.
            statement = _INSERT_EVENT if tries == 1 else f"{_INSERT_EVENT} ON CONFLICT (id) DO NOTHING"
            rows = [storable_row(event_row(event)) for event in events]
            await connection.cursor().executemany(self._db.sql(statement), rows)

    async def run(self, id: str) -> Run | None:
        beginning = storable_text(id)
        rows = await self._db.rows(_SELECT_BY_ID, (beginning, beginning + "\U0010ffff"))
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
        values = {
            "status": status,
            "principal": principal and storable_text(principal),
            "kind": kind,
            "name": name and storable_text(name),
            "limit": limit if limit >= 0 else None,
        }
        return [run_from_row(row) for row in await self._db.rows(_SELECT_RUNS, values)]

    async def history(self, run: str) -> list[RunEvent]:
        return [RunEvent(*row) for row in await self._db.rows(_SELECT_EVENTS, (storable_text(run),))]

    async def pause(self, token: str) -> Pause | None:
        rows = await self._db.rows(f"{_SELECT_PAUSE} WHERE token = %s", (storable_text(token),))
        return pause_from_row(rows[0]) if rows else None

    async def pauses(
        self,
        *,
        run: str | None = None,
        principal: str | None = None,
        source: str | None = None,
        waiting: bool = True,
    ) -> list[Pause]:
        values = {
            "run": run and storable_text(run),
            "principal": principal and storable_text(principal),
            "source": source and storable_text(source),
            "waiting": waiting,
        }
        return [pause_from_row(row) for row in await self._db.rows(_SELECT_PAUSES, values)]

    async def claim(
        self, token: str, answer: bytes | None, owner: str, lease_until: float, now: float
    ) -> Claim:
        tries = 0

        async def work(connection: Connection) -> Claim:
            nonlocal tries
            tries += 1
            found = await connection.execute(self._db.sql(_LOCK_PAUSE), (storable_text(token),), binary=True)
            row = await found.fetchone()
            if row is None:
                return "unknown"
            run, state, expires_at, known_answer = row
            values = {"id": run, "owner": owner, "lease_until": lease_until, "now": now}
            if state != "waiting":
                # By this very call, if the connection was lost after it had been committed.
                return (
                    await self._claimed_before(connection, values, answer, known_answer)
                    if tries > 1
                    else "used"
                )
            if expires_at is not None and expires_at <= now:
                return "expired"
            await connection.execute(self._db.sql(_ANSWER), (answer, storable_text(token)))
            taken = await connection.execute(self._db.sql(_CLAIM_RUN), values)
            return "claimed" if taken.rowcount else "noted"

        return await self._db.transaction(work)

    async def _claimed_before(
        self, connection: Connection, values: dict[str, Any], answer: bytes | None, known: bytes | None
    ) -> Claim:
        found = await connection.execute(self._db.sql(_IS_TAKEN), values)
        if await found.fetchone():
            return "claimed"
        return "noted" if answer is not None and answer == known else "used"

    async def take_run(self, id: str, owner: str, lease_until: float, now: float) -> bool:
        values = {"id": storable_text(id), "owner": owner, "lease_until": lease_until, "now": now}
        return await self._db.change(_TAKE_RUN, values) == 1

    async def renew_leases(self, owner: str, lease_until: float) -> None:
        await self._db.change(_RENEW, (lease_until, owner))


_SELECT_RUN = """
    SELECT id, kind, name, principal, groups, status, created_at, updated_at, error, owner, lease_until
    FROM {schema}.runs
"""
_SELECT_BY_ID = f"{_SELECT_RUN} WHERE id >= %s AND id < %s ORDER BY id LIMIT 2"
_SELECT_RUNS = f"""
    {_SELECT_RUN}
    WHERE (%(status)s::text IS NULL OR status = %(status)s)
      AND (%(kind)s::text IS NULL OR kind = %(kind)s)
      AND (%(name)s::text IS NULL OR name = %(name)s)
      AND (%(principal)s::text IS NULL OR principal = %(principal)s)
    ORDER BY number DESC LIMIT %(limit)s
"""
_UPSERT_RUN = """
    INSERT INTO {schema}.runs (id, kind, name, principal, groups, status, created_at, updated_at, error,
                               owner, lease_until)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (id) DO UPDATE SET status = excluded.status, updated_at = excluded.updated_at,
        error = excluded.error, owner = excluded.owner, lease_until = excluded.lease_until
"""
_SET_OWNER = """
    UPDATE {schema}.runs
    SET status = 'running', owner = %(owner)s, lease_until = %(lease_until)s, updated_at = %(now)s
    WHERE id = %(id)s
"""
_CLAIM_RUN = f"""
    {_SET_OWNER} AND (status = 'paused' OR (status = 'running' AND lease_until <= %(now)s))
"""
_TAKE_RUN = f"""
    {_SET_OWNER} AND (status IN ('paused', 'cancelled') OR (status = 'running' AND
        (lease_until <= %(now)s OR (owner = %(owner)s AND lease_until = %(lease_until)s))))
"""
_IS_TAKEN = """
    SELECT 1 FROM {schema}.runs
    WHERE id = %(id)s AND owner = %(owner)s AND lease_until = %(lease_until)s AND updated_at = %(now)s
"""
_RENEW = "UPDATE {schema}.runs SET lease_until = %s WHERE status = 'running' AND owner = %s"
_SELECT_EVENTS = """
    SELECT run, kind, at, path, sealed, id FROM {schema}.run_events WHERE run = %s ORDER BY number
"""
_INSERT_EVENT = """
    INSERT INTO {schema}.run_events (run, kind, at, path, sealed, id) VALUES (%s, %s, %s, %s, %s, %s)
"""
_SELECT_PAUSE = """
    SELECT token, run, path, kind, message, principal, groups, created_at, source, tool, expires_at, state,
           sealed, answer
    FROM {schema}.pauses
"""
_SELECT_PAUSES = f"""
    {_SELECT_PAUSE}
    WHERE (%(run)s::text IS NULL OR run = %(run)s)
      AND (%(principal)s::text IS NULL OR principal = %(principal)s)
      AND (%(source)s::text IS NULL OR source = %(source)s)
      AND (NOT %(waiting)s OR state = 'waiting')
    ORDER BY number
"""
_INSERT_PAUSE = """
    INSERT INTO {schema}.pauses (token, run, path, kind, message, principal, groups, created_at, source,
                                 tool, expires_at, state, sealed, answer)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (token) DO NOTHING
"""
_LOCK_PAUSE = "SELECT run, state, expires_at, answer FROM {schema}.pauses WHERE token = %s FOR UPDATE"
_ANSWER = "UPDATE {schema}.pauses SET state = 'answered', answer = %s WHERE token = %s"
