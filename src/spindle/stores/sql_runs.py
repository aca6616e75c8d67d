"""Runs, their events and their pauses, as every store of ours reads them."""

from __future__ import annotations

from spindle.domain.run import PART, EventKind, Pause, Run, RunEvent, RunStatus
from spindle.errors import NotFoundError
from spindle.stores.run_rows import EVENT, PAUSE, RUN, pause_from_row, run_from_row
from spindle.stores.sql import NO_LIMIT, SqlQueries, insert, select


class SqlRuns(SqlQueries):
    """The part of `RunStore` that needs no transaction of several statements."""

    async def run(self, id: str) -> Run | None:
        query = f"{_SELECT_RUN} WHERE id >= :first AND id < :last ORDER BY id LIMIT 2"
        rows = await self._rows(query, {"first": id, "last": f"{id}\U0010ffff"})
        if len(rows) > 1 and rows[0][0] != id:
            raise NotFoundError(f"several runs begin with {id!r}", hint="give more characters of the id")
        return run_from_row(rows[0], self._seal) if rows else None

    async def runs(
        self,
        *,
        limit: int,
        status: RunStatus | None = None,
        principal: str | None = None,
        kind: str | None = None,
        name: str | None = None,
        before: str | None = None,
    ) -> list[Run]:
        values = {
            "status": status,
            "principal": principal,
            "kind": kind,
            "name": name,
            "before": before,
            "limit": limit if limit >= 0 else NO_LIMIT,
        }
        return [run_from_row(row, self._seal) for row in await self._rows(_SELECT_RUNS, values)]

    async def newest_event(self) -> int:
        return (await self._rows("SELECT COALESCE(MAX(number), 0) FROM {schema}.run_events", {}))[0][0]

    async def queued(
        self, queue: str, *, principal: str | None = None, due_by: float | None = None, parts: bool = True
    ) -> int:
        values = {"queue": queue, "principal": principal, "due_by": due_by, "parts": parts}
        return (await self._rows(_COUNT_QUEUED, values))[0][0]

    async def parts(self, prefix: str) -> dict[str, RunStatus]:
        values = {"first": prefix, "last": f"{prefix}\U0010ffff"}
        return dict(await self._rows(_SELECT_PARTS, values))

    async def held_back(self, now: float) -> list[tuple[str, str]]:
        return [(queue, principal) for queue, principal in await self._rows(_SELECT_HELD_BACK, {"now": now})]

    async def history(self, run: str, kind: EventKind | None = None) -> list[RunEvent]:
        only = "" if kind is None else "AND kind = :kind "
        query = f"{select('run_events', EVENT)} WHERE run = :run {only}ORDER BY number"
        return [RunEvent(*row) for row in await self._rows(query, {"run": run, "kind": kind})]

    async def pause(self, token: str) -> Pause | None:
        rows = await self._rows(f"{_SELECT_PAUSE} WHERE token = :token", {"token": token})
        return pause_from_row(rows[0]) if rows else None

    async def pauses(
        self,
        *,
        run: str | None = None,
        principal: str | None = None,
        source: str | None = None,
        waiting: bool = True,
    ) -> list[Pause]:
        values = {"run": run, "principal": principal, "source": source, "waiting": waiting}
        return [pause_from_row(row) for row in await self._rows(_SELECT_PAUSES, values)]

    async def answered(self, limit: int) -> list[Pause]:
        return [pause_from_row(row) for row in await self._rows(_SELECT_ANSWERED, {"limit": limit})]

    async def due(self, limit: int) -> list[Pause]:
        return [pause_from_row(row) for row in await self._rows(_SELECT_DUE, {"limit": limit})]


LEASE_END = "{now} + CAST(:lease AS DOUBLE PRECISION)"
_RUN = ", ".join(RUN).replace("lease,", "lease_until - {now},")
_SELECT_RUN = select("runs", [_RUN])
_SELECT_RUNS = f"""
    {_SELECT_RUN}
    WHERE (CAST(:status AS TEXT) IS NULL OR status = :status)
      AND (CAST(:principal AS TEXT) IS NULL OR principal = :principal)
      AND (CAST(:kind AS TEXT) IS NULL AND kind <> '{PART}' OR kind = :kind)
      AND (CAST(:name AS TEXT) IS NULL OR name = :name)
      AND (CAST(:before AS TEXT) IS NULL
           OR number < (SELECT number FROM {{schema}}.runs WHERE id = :before))
    ORDER BY number DESC LIMIT :limit
"""  # noqa: S608 - only constants
_INSERT_RUN = insert("runs", RUN).replace(".runs", ".runs AS held").replace("lease,", "lease_until,", 1)
UPSERT_RUN = f"""
    {_INSERT_RUN.replace(":lease,", f"{LEASE_END},")}
    ON CONFLICT (id) DO UPDATE SET status = excluded.status, updated_at = excluded.updated_at,
        error = excluded.error, lease_until = excluded.lease_until, turn = excluded.turn,
        not_before = excluded.not_before
    WHERE held.owner = excluded.owner AND held.generation = excluded.generation AND held.status = 'running'
"""
"""Touches no row if somebody else holds the run, or nobody."""
_HELD = "id = :id AND owner = :owner AND generation = :generation AND status = 'running'"
LOOK_AT_HELD = f"SELECT 1 FROM {{schema}}.runs WHERE {_HELD}"  # noqa: S608 - only constants
RENEW_HELD = f"UPDATE {{schema}}.runs SET lease_until = {LEASE_END} WHERE {_HELD}"  # noqa: S608 - only constants
OWN_RUN = f"""
    UPDATE {{schema}}.runs
    SET status = 'running', owner = :owner, lease_until = {LEASE_END}, updated_at = :now,
        generation = generation + 1
    WHERE id = :id
"""  # noqa: S608 - only constants
TAKE_TURN = f"{OWN_RUN} AND turn = :turn AND status IN ('queued', 'running') RETURNING {_RUN}"
TAKE_ENDED = f"{OWN_RUN} AND status IN ('failed', 'cancelled')"
_SELECT_PARTS = f"""
    SELECT id, status FROM {{schema}}.runs
    WHERE id >= :first AND id < :last AND kind = '{PART}' ORDER BY id
"""  # noqa: S608 - only constants
_COUNT_QUEUED = f"""
    SELECT count(*) FROM {{schema}}.runs
    WHERE queue = :queue AND status = 'queued' AND (:parts OR kind <> '{PART}')
      AND (CAST(:principal AS TEXT) IS NULL OR principal = :principal)
      AND (CAST(:due_by AS DOUBLE PRECISION) IS NULL OR not_before IS NULL OR not_before <= :due_by)
"""  # noqa: S608 - only constants
_HELD_BACK = "status = 'queued' AND turn <= 0 AND (not_before IS NULL OR not_before <= :now)"
_SELECT_HELD_BACK = (
    f"SELECT DISTINCT queue, principal FROM {{schema}}.runs WHERE queue IS NOT NULL AND {_HELD_BACK}"  # noqa: S608
)
COUNT_ADMITTED = """
    SELECT count(*) FROM {schema}.runs WHERE queue = :queue AND principal = :principal
        AND (status = 'running' OR status = 'queued' AND turn > 0)
"""
ADMIT = f"""
    UPDATE {{schema}}.runs SET turn = 1 - turn, updated_at = :now
    WHERE id IN (SELECT id FROM {{schema}}.runs WHERE queue = :queue AND principal = :principal
        AND {_HELD_BACK} ORDER BY priority, number LIMIT :free)
    RETURNING id
"""  # noqa: S608 - only constants
SELECT_ADRIFT = f"""
    {_SELECT_RUN}
    WHERE queue IS NOT NULL AND (status = 'running' AND {{is_dead}} OR status = 'queued'
        AND turn > 0 AND updated_at < :before AND (not_before IS NULL OR not_before < :before))
    ORDER BY updated_at LIMIT :limit
"""
INSERT_EVENT = f"{insert('run_events', EVENT)} ON CONFLICT DO NOTHING"
"""By its id, or because the outcome of its step is there: a write may be repeated."""
_SELECT_PAUSE = select("pauses", PAUSE)
_SELECT_PAUSES = f"""
    {_SELECT_PAUSE}
    WHERE (CAST(:run AS TEXT) IS NULL OR run = :run)
      AND (CAST(:principal AS TEXT) IS NULL OR principal = :principal)
      AND (CAST(:source AS TEXT) IS NULL OR source = :source)
      AND (NOT :waiting OR state = 'waiting')
    ORDER BY number
"""
_SELECT_ANSWERED = f"{_SELECT_PAUSE} WHERE answer IS NOT NULL ORDER BY number DESC LIMIT :limit"
_SELECT_DUE = f"""
    {_SELECT_PAUSE}
    WHERE kind = 'wait' AND state = 'waiting' AND expires_at IS NOT NULL
    ORDER BY expires_at LIMIT :limit
"""
INSERT_PAUSE = f"""
    {insert("pauses", PAUSE).replace(".pauses", ".pauses AS known")}
    ON CONFLICT (token) DO UPDATE SET state = excluded.state
    WHERE excluded.state = 'answered' AND known.state = 'waiting'
"""
ANSWER_PAUSE = "UPDATE {schema}.pauses SET state = 'answered', answer = :answer WHERE token = :token"
