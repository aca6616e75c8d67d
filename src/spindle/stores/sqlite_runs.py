"""Runs, their events and their pauses, in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from spindle.domain.run import Pause, Run, RunEvent
from spindle.ports.store import Claim
from spindle.stores.rows import storable
from spindle.stores.run_rows import EVENT, event_row, event_values, pause_row, run_from_row, run_row
from spindle.stores.sql_runs import (
    ADMIT,
    ANSWER_PAUSE,
    COUNT_ADMITTED,
    INSERT_EVENT,
    INSERT_PAUSE,
    LOOK_AT_HELD,
    OWN_RUN,
    RENEW_HELD,
    SELECT_ADRIFT,
    TAKE_ENDED,
    TAKE_TURN,
    UPSERT_RUN,
    SqlRuns,
)
from spindle.stores.sqlite_at_once import WritesAtOnce
from spindle.stores.sqlite_queries import ENDED, SqliteQueries, sql, storable_values

MAX_AT_ONCE = 64 * 1024
"""Bytes of a run and its events that are written on the event loop."""
MAX_TOGETHER = 8
"""Events that one statement adds."""


class SqliteRuns(SqliteQueries, SqlRuns):
    """The part of the store that `RunStore` and `TraceStore` describe. Each transaction has the file to
    itself, so what a statement looks at stays so until the commit."""

    _at_once: WritesAtOnce

    async def save_run(self, run: Run, events: Sequence[RunEvent] = (), pauses: Sequence[Pause] = ()) -> bool:
        row = run_row(run, self._seal)

        def work(db: sqlite3.Connection) -> bool:
            if not db.execute(sql(UPSERT_RUN), row).rowcount:
                return False
            _insert_events(db, events)
            db.executemany(sql(INSERT_PAUSE), [pause_row(pause) for pause in pauses])
            return True

        is_small = not pauses and len(row["error"] or b"") + _size(events) <= MAX_AT_ONCE
        done = self._at_once.attempt(work) if is_small else None
        return await self._writer.run(work) if done is None else done.outcome

    async def save_events(self, run: Run, events: Sequence[RunEvent]) -> bool:
        done = self.save_events_at_once(run, events)
        return await self._writer.run(_adding(run, events)) if done is None else done

    def save_events_at_once(self, run: Run, events: Sequence[RunEvent]) -> bool | None:
        if _size(events) > MAX_AT_ONCE:
            return None
        values: list[Any] = []
        for event in events:
            values += event_values(event)
        if 0 < len(events) <= MAX_TOGETHER:
            added = self._at_once.change(_add(len(events)), (*values, run.id, run.owner, run.generation))
            if added is None:
                return None  # it is the thread's turn, which moves the log into the file
            if added == len(events):
                return True
        # The run is not held any more, or some of it is there already.
        done = self._at_once.attempt(_adding(run, events))
        return None if done is None else done.outcome

    async def save_trace(self, events: Sequence[RunEvent]) -> None:
        await self._writer.run(lambda db: _insert_events(db, events))

    async def claim(self, token: str, answer: bytes | None, owner: str, lease: float, now: float) -> Claim:
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
            values = {"id": run, "owner": owner, "lease": lease, "now": now}
            return "claimed" if db.execute(sql(_CLAIM_RUN), values).rowcount else "noted"

        return await self._writer.run(work)

    async def take_turn(self, id: str, turn: int, owner: str, lease: float, now: float) -> Run | None:
        values = storable_values({"id": id, "turn": turn, "owner": owner, "lease": lease, "now": now})
        found = await self._writer.run(lambda db: db.execute(sql(TAKE_TURN), values).fetchall())
        return run_from_row(found[0], self._seal) if found else None

    async def take_run(self, id: str, owner: str, lease: float, now: float) -> bool:
        return await self._change(_TAKE_RUN, {"id": id, "owner": owner, "lease": lease, "now": now}) == 1

    async def reopen(self, id: str, owner: str, lease: float, now: float) -> bool:
        return await self._change(TAKE_ENDED, {"id": id, "owner": owner, "lease": lease, "now": now}) == 1

    async def admit(self, queue: str, principal: str, most: int, now: float) -> list[str]:
        values = {"queue": queue, "principal": storable(principal), "now": now}

        def work(db: sqlite3.Connection) -> list[str]:
            (admitted,) = db.execute(sql(COUNT_ADMITTED), values).fetchone()
            return [
                id for (id,) in db.execute(sql(ADMIT), {**values, "free": max(most - admitted, 0)}).fetchall()
            ]

        return await self._writer.run(work)

    async def adrift(self, before: float, lease: float, limit: int) -> list[Run]:
        values = {"before": before, "lease": lease, "limit": limit}
        return [run_from_row(row, self._seal) for row in await self._rows(_ADRIFT, values)]

    async def renew_leases(self, runs: Sequence[Run], lease: float) -> set[str]:
        def work(db: sqlite3.Connection) -> set[str]:
            renewed = ((run.id, db.execute(sql(RENEW_HELD), run_row(run) | {"lease": lease})) for run in runs)
            return {id for id, done in renewed if done.rowcount}

        return await self._writer.run(work)


@cache
def _add(count: int) -> str:
    """The statement that adds so many events to a run, if it is still its holder's."""
    row = ", ".join("?" * len(EVENT))
    rows = row if count == 1 else f"* FROM (VALUES {', '.join([f'({row})'] * count)})"
    return f"""
        INSERT INTO main.run_events ({", ".join(EVENT)}) SELECT {rows}
        WHERE EXISTS (SELECT 1 FROM main.runs
                      WHERE id = ? AND owner = ? AND generation = ? AND status = 'running')
        ON CONFLICT DO NOTHING
    """  # noqa: S608 - only constants


def _adding(run: Run, events: Sequence[RunEvent]) -> Callable[[sqlite3.Connection], bool]:
    """The work of adding events to a run, if it is still its holder's."""
    held = {"id": run.id, "owner": run.owner, "generation": run.generation}

    def work(db: sqlite3.Connection) -> bool:
        if db.execute(sql(LOOK_AT_HELD), held).fetchone() is None:
            return False
        _insert_events(db, events)
        return True

    return work


def _size(events: Sequence[RunEvent]) -> int:
    return sum([len(event.sealed or b"") for event in events])


def _insert_events(db: sqlite3.Connection, events: Sequence[RunEvent]) -> None:
    db.executemany(sql(INSERT_EVENT), [event_row(event) for event in events])


_IS_DEAD = f"status = 'running' AND {ENDED.format(end='lease_until')}"
_ADRIFT = SELECT_ADRIFT.replace("{is_dead}", ENDED.format(end="lease_until"))
_CLAIM_RUN = f"{OWN_RUN} AND (status = 'paused' OR ({_IS_DEAD}))"
_TAKE_RUN = f"{OWN_RUN} AND (status IN ('paused', 'cancelled') OR ({_IS_DEAD}))"
