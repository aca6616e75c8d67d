"""Runs, their events and their pauses, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spindle.domain.run import Pause, Run, RunEvent
from spindle.ports.store import Claim
from spindle.stores.postgres.connection import Statements
from spindle.stores.postgres.queries import PostgresQueries
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
        async def work(it: Statements) -> None:
            await it.change(UPSERT_RUN, run_row(run))
            await _insert_events(it, events)
            if pauses:
                await it.change_each(INSERT_PAUSE, [pause_row(pause) for pause in pauses])

        await self._db.transaction(work)

    async def save_events(self, events: Sequence[RunEvent]) -> None:
        await self._db.transaction(lambda it: _insert_events(it, events))

    async def claim(
        self, token: str, answer: bytes | None, owner: str, lease_until: float, now: float
    ) -> Claim:
        async def work(it: Statements) -> Claim:
            found = await it.rows(_LOCK_PAUSE, (token,))
            if not found:
                return "unknown"
            run, state, expires_at, known_answer = found[0]
            values = {"id": run, "owner": owner, "lease_until": lease_until, "now": now}
            if state != "waiting":
                # By this very call, if the connection was lost after it had been committed.
                return await _claimed_before(it, values, answer, known_answer) if it.tries > 1 else "used"
            if expires_at is not None and expires_at <= now:
                return "expired"
            await it.change(ANSWER_PAUSE, {"answer": answer, "token": token})
            return "claimed" if await it.change(CLAIM_RUN, values) else "noted"

        return await self._db.transaction(work)

    async def take_run(self, id: str, owner: str, lease_until: float, now: float) -> bool:
        values = {"id": id, "owner": owner, "lease_until": lease_until, "now": now}
        return await self._change(_TAKE_RUN, values) == 1


async def _insert_events(it: Statements, events: Sequence[RunEvent]) -> None:
    if events:
        # An existing id is a conflict, unless this very call inserted it.
        statement = INSERT_EVENT if it.tries == 1 else f"{INSERT_EVENT} ON CONFLICT (id) DO NOTHING"
        await it.change_each(statement, [event_row(event) for event in events])


async def _claimed_before(
    it: Statements, values: dict[str, Any], answer: bytes | None, known: bytes | None
) -> Claim:
    if await it.rows(_IS_TAKEN, values):
        return "claimed"
    return "noted" if answer is not None and answer == known else "used"


_TAKE_RUN = f"""
    {OWN_RUN} AND (status IN ('paused', 'cancelled') OR (status = 'running' AND
        (lease_until <= :now OR (owner = :owner AND lease_until = :lease_until))))
"""
_IS_TAKEN = """
    SELECT 1 FROM {schema}.runs
    WHERE id = :id AND owner = :owner AND lease_until = :lease_until AND updated_at = :now
"""
_LOCK_PAUSE = "SELECT run, state, expires_at, answer FROM {schema}.pauses WHERE token = %s FOR UPDATE"
