"""Runs, their events and their pauses, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spindle.domain.run import Pause, Run, RunEvent
from spindle.ports.store import Claim
from spindle.stores.postgres.connection import Connection
from spindle.stores.postgres.queries import PostgresQueries
from spindle.stores.postgres.text import storable_text, storable_values
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


class PostgresRuns(PostgresQueries, SqlRuns):
    """The part of the store that `RunStore` describes. Any work may be repeated (`Database.run`), so on
    the second try the effects of this very call count as its own."""

    async def save_run(self, run: Run, events: Sequence[RunEvent] = (), pauses: Sequence[Pause] = ()) -> None:
        tries = 0

        async def work(connection: Connection) -> None:
            nonlocal tries
            tries += 1
            await connection.execute(self._db.sql(UPSERT_RUN), storable_values(run_row(run)))
            await self._insert_events(connection, events, tries)
            if pauses:
                rows = [storable_values(pause_row(pause)) for pause in pauses]
                await connection.cursor().executemany(self._db.sql(INSERT_PAUSE), rows)

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
            statement = INSERT_EVENT if tries == 1 else f"{INSERT_EVENT} ON CONFLICT (id) DO NOTHING"
            rows = [storable_values(event_row(event)) for event in events]
            await connection.cursor().executemany(self._db.sql(statement), rows)

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
            answered = {"answer": answer, "token": storable_text(token)}
            await connection.execute(self._db.sql(ANSWER_PAUSE), answered)
            taken = await connection.execute(self._db.sql(CLAIM_RUN), values)
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
        values = {"id": id, "owner": owner, "lease_until": lease_until, "now": now}
        return await self._change(_TAKE_RUN, values) == 1


_TAKE_RUN = f"""
    {OWN_RUN} AND (status IN ('paused', 'cancelled') OR (status = 'running' AND
        (lease_until <= :now OR (owner = :owner AND lease_until = :lease_until))))
"""
_IS_TAKEN = """
    SELECT 1 FROM {schema}.runs
    WHERE id = :id AND owner = :owner AND lease_until = :lease_until AND updated_at = :now
"""
_LOCK_PAUSE = "SELECT run, state, expires_at, answer FROM {schema}.pauses WHERE token = %s FOR UPDATE"
