"""Runs, their events and their pauses, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spindle.domain.run import Pause, Run, RunEvent
from spindle.ports.store import Claim
from spindle.stores.postgres.connection import Statements
from spindle.stores.postgres.queries import PostgresQueries
from spindle.stores.run_rows import event_row, pause_row, run_from_row, run_row
from spindle.stores.sql_runs import (
    ANSWER_PAUSE,
    INSERT_EVENT,
    INSERT_PAUSE,
    LEASE_END,
    LOOK_AT_HELD,
    OWN_RUN,
    SELECT_ADRIFT,
    TAKE_ENDED,
    UPSERT_RUN,
    SqlRuns,
)


class PostgresRuns(PostgresQueries, SqlRuns):
    """The part of the store that `RunStore` and `TraceStore` describe. Any work may be repeated
    (`Database.run`), so on the second try the effects of this very call count as its own. Writes lock the
    run: whoever takes it waits for them, and sees them."""

    async def save_run(self, run: Run, events: Sequence[RunEvent] = (), pauses: Sequence[Pause] = ()) -> bool:
        row = run_row(run, self._seal)

        async def work(it: Statements) -> bool:
            if not await it.change(UPSERT_RUN if it.tries == 1 else _UPSERT_AGAIN, row):
                return False
            await _insert_events(it, events)
            if pauses:
                await it.change_each(INSERT_PAUSE, [pause_row(pause) for pause in pauses])
            return True

        return await self._db.transaction(work)

    async def save_events(self, run: Run, events: Sequence[RunEvent]) -> bool:
        async def work(it: Statements) -> bool:
            if not await it.rows(_LOCK_HELD, run_row(run)):
                return False
            await _insert_events(it, events)
            return True

        return await self._db.transaction(work)

    def save_events_at_once(self, run: Run, events: Sequence[RunEvent]) -> bool | None:
        return None  # a server is always waited for

    async def save_trace(self, events: Sequence[RunEvent]) -> None:
        await self._db.transaction(lambda it: _insert_events(it, events))

    async def claim(self, token: str, answer: bytes | None, owner: str, lease: float, now: float) -> Claim:
        async def work(it: Statements) -> Claim:
            found = await it.rows(_LOCK_PAUSE, (token,))
            if not found:
                return "unknown"
            run, state, expires_at, known_answer = found[0]
            values = {"id": run, "owner": owner, "lease": lease, "now": now}
            if state != "waiting":
                # By this very call, if the connection was lost after it had been committed.
                return await _claimed_before(it, values, answer, known_answer) if it.tries > 1 else "used"
            if expires_at is not None and expires_at <= now:
                return "expired"
            await it.change(ANSWER_PAUSE, {"answer": answer, "token": token})
            return "claimed" if await it.change(_CLAIM_RUN, values) else "noted"

        return await self._db.transaction(work)

    async def take_run(self, id: str, owner: str, lease: float, now: float) -> bool:
        return await self._change(_TAKE_RUN, {"id": id, "owner": owner, "lease": lease, "now": now}) == 1

    async def reopen(self, id: str, owner: str, lease: float, now: float) -> bool:
        values = {"id": id, "owner": owner, "lease": lease, "now": now}

        async def work(it: Statements) -> bool:
            taken_before = it.tries > 1 and bool(await it.rows(_IS_TAKEN, values))
            return taken_before or await it.change(TAKE_ENDED, values) == 1

        return await self._db.transaction(work)

    async def adrift(self, before: float, lease: float, limit: int) -> list[Run]:
        found = await self._rows(_ADRIFT, {"before": before, "limit": limit})
        return [run_from_row(row, self._seal) for row in found]

    async def renew_leases(self, runs: Sequence[Run], lease: float) -> set[str]:
        values = {
            "lease": lease,
            "ids": [run.id for run in runs],
            "owners": [run.owner for run in runs],
            "generations": [run.generation for run in runs],
        }
        return {id for (id,) in await self._db.transaction(lambda it: it.rows(_RENEW, values))}


async def _insert_events(it: Statements, events: Sequence[RunEvent]) -> None:
    if events:
        await it.change_each(INSERT_EVENT, [event_row(event) for event in events])


async def _claimed_before(
    it: Statements, values: dict[str, Any], answer: bytes | None, known: bytes | None
) -> Claim:
    if await it.rows(_IS_TAKEN, values):
        return "claimed"
    return "noted" if answer is not None and answer == known else "used"


_UPSERT_AGAIN = UPSERT_RUN.replace(
    "held.status = 'running'", "(held.status = 'running' OR held.updated_at = excluded.updated_at)"
)
_LOCK_HELD = f"{LOOK_AT_HELD} FOR NO KEY UPDATE"
_CLAIM_RUN = f"{OWN_RUN} AND (status = 'paused' OR (status = 'running' AND lease_until <= {{now}}))"
_TAKE_RUN = f"""
    {OWN_RUN} AND (status IN ('paused', 'cancelled') OR (status = 'running' AND
        (lease_until <= {{now}} OR (owner = :owner AND updated_at = :now))))
"""
_ADRIFT = SELECT_ADRIFT.replace("{is_dead}", "lease_until <= {now}")
_IS_TAKEN = "SELECT 1 FROM {schema}.runs WHERE id = :id AND owner = :owner AND updated_at = :now"
_LOCK_PAUSE = "SELECT run, state, expires_at, answer FROM {schema}.pauses WHERE token = %s FOR UPDATE"
_RENEW = f"""
    UPDATE {{schema}}.runs AS held SET lease_until = {LEASE_END}
    FROM unnest(CAST(:ids AS TEXT[]), CAST(:owners AS TEXT[]), CAST(:generations AS BIGINT[]))
        AS wanted (id, owner, generation)
    WHERE held.id = wanted.id AND held.owner = wanted.owner AND held.generation = wanted.generation
        AND held.status = 'running'
    RETURNING held.id
"""  # noqa: S608 - only constants
