"""Runs, their events and their pauses, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spindle.domain.run import Pause, Run, RunEvent
from spindle.ports.store import Claim
from spindle.stores.postgres.connection import Statements
from spindle.stores.postgres.queries import PostgresQueries
from spindle.stores.run_rows import EVENT, event_row, event_values, pause_row, run_from_row, run_row
from spindle.stores.sql_runs import (
    ADMIT,
    ANSWER_PAUSE,
    COUNT_ADMITTED,
    INSERT_EVENT,
    INSERT_PAUSE,
    LEASE_END,
    LOOK_AT_HELD,
    OWN_RUN,
    SELECT_ADRIFT,
    TAKE_ENDED,
    TAKE_TURN,
    UPSERT_RUN,
    SqlRuns,
)


class PostgresRuns(PostgresQueries, SqlRuns):
    """The part of the store that `RunStore` and `TraceStore` describe. Any work may be repeated
    (`Database.run`), so on the second try the effects of this very call count as its own. Writes lock the
    run: whoever takes it waits for them, and sees them."""

    async def save_run(self, run: Run, events: Sequence[RunEvent] = (), pauses: Sequence[Pause] = ()) -> bool:
        row = {**run_row(run, self._seal), **_columns(events)}

        async def work(it: Statements) -> bool:
            if not await it.rows(_SAVE_RUN if it.tries == 1 else _SAVE_RUN_AGAIN, row):
                return False
            if pauses:
                await it.change_each(INSERT_PAUSE, [pause_row(pause) for pause in pauses])
            return True

        # One statement is a transaction of its own, with a third of the messages.
        return await (self._db.transaction(work) if pauses else self._db.run(work))

    async def save_events(self, run: Run, events: Sequence[RunEvent]) -> bool:
        return bool(await self._db.rows(_SAVE_EVENTS, {**run_row(run), **_columns(events)}))

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

    async def take_turn(self, id: str, turn: int, owner: str, lease: float, now: float) -> Run | None:
        values = {"id": id, "turn": turn, "owner": owner, "lease": lease, "now": now}
        found = await self._db.rows(TAKE_TURN, values)
        return run_from_row(found[0], self._seal) if found else None

    async def take_run(self, id: str, owner: str, lease: float, now: float) -> bool:
        return await self._change(_TAKE_RUN, {"id": id, "owner": owner, "lease": lease, "now": now}) == 1

    async def reopen(self, id: str, owner: str, lease: float, now: float) -> bool:
        values = {"id": id, "owner": owner, "lease": lease, "now": now}

        async def work(it: Statements) -> bool:
            taken_before = it.tries > 1 and bool(await it.rows(_IS_TAKEN, values))
            return taken_before or await it.change(TAKE_ENDED, values) == 1

        return await self._db.transaction(work)

    async def admit(self, queue: str, principal: str, most: int, now: float) -> list[str]:
        values = {"queue": queue, "principal": principal, "now": now}

        async def work(it: Statements) -> list[str]:
            # One at a time for each principal and queue: what is counted stays so until the commit.
            await it.rows(_LOCK_SHARE, values)
            ((admitted,),) = await it.rows(COUNT_ADMITTED, values)
            return [id for (id,) in await it.rows(ADMIT, {**values, "free": max(most - admitted, 0)})]

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


def _columns(events: Sequence[RunEvent]) -> dict[str, list[Any]]:
    """The events as a list of values for each column."""
    rows = [event_values(event) for event in events]
    return {f"event_{name}": [row[number] for row in rows] for number, name in enumerate(EVENT)}


async def _claimed_before(
    it: Statements, values: dict[str, Any], answer: bytes | None, known: bytes | None
) -> Claim:
    if await it.rows(_IS_TAKEN, values):
        return "claimed"
    return "noted" if answer is not None and answer == known else "used"


_UPSERT_AGAIN = UPSERT_RUN.replace(
    "held.status = 'running'", "(held.status = 'running' OR held.updated_at = excluded.updated_at)"
)
_TYPES = {"at": "DOUBLE PRECISION", "sealed": "BYTEA"}
_ADD_EVENTS = f"""
    added AS (
        INSERT INTO {{schema}}.run_events ({", ".join(EVENT)})
        SELECT {", ".join(EVENT)} FROM unnest(
            {", ".join(f"CAST(:event_{name} AS {_TYPES.get(name, 'TEXT')}[])" for name in EVENT)}
        ) WITH ORDINALITY AS event ({", ".join(EVENT)}, place)
        WHERE EXISTS (SELECT 1 FROM held) ORDER BY place
        ON CONFLICT DO NOTHING
    )
    SELECT 1 FROM held
"""  # noqa: S608 - only constants
_SAVE_EVENTS = f"WITH held AS ({LOOK_AT_HELD} FOR NO KEY UPDATE), {_ADD_EVENTS}"
_SAVE_RUN = f"WITH held AS ({UPSERT_RUN} RETURNING 1), {_ADD_EVENTS}"
_SAVE_RUN_AGAIN = f"WITH held AS ({_UPSERT_AGAIN} RETURNING 1), {_ADD_EVENTS}"
_CLAIM_RUN = f"{OWN_RUN} AND (status = 'paused' OR (status = 'running' AND lease_until <= {{now}}))"
_TAKE_RUN = f"""
    {OWN_RUN} AND (status IN ('paused', 'cancelled') OR (status = 'running' AND
        (lease_until <= {{now}} OR (owner = :owner AND updated_at = :now))))
"""
_ADRIFT = SELECT_ADRIFT.replace("{is_dead}", "lease_until <= {now}")
_LOCK_SHARE = "SELECT pg_advisory_xact_lock(hashtextextended(CAST(:queue AS TEXT) || ' ' || :principal, 0))"
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
