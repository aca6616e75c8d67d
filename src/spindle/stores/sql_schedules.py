"""Schedules, as every store of ours keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spindle.domain.json_schema import to_json
from spindle.stores.rows import storable
from spindle.stores.run_rows import event_row, groups_row, opened_error, principal_of, run_row
from spindle.stores.sql import Change, SqlQueries, insert, select
from spindle.stores.sql_runs import INSERT_EVENT, UPSERT_RUN

if TYPE_CHECKING:
    from spindle.domain.run import Run, RunEvent
    from spindle.domain.schedule import Schedule

SCHEDULE = (
    "id", "name", "flow", "cron", "every", "zone", "catch_up", "queue", "priority", "principal", "groups",
    "created_at", "next_at", "paused", "last_at", "last_run", "error", "sealed", "version",
)  # fmt: skip


class SqlSchedules(SqlQueries):
    """The part of the store that `ScheduleStore` describes, but for its clock."""

    async def add_schedule(self, schedule: Schedule) -> bool:
        return await self._change(_INSERT, self._row_of(schedule), again=False) == 1

    async def schedule(self, name: str) -> Schedule | None:
        rows = await self._rows(f"{_SELECT} WHERE name = :name", {"name": name})
        return self._from_row(rows[0]) if rows else None

    async def schedules(self) -> list[Schedule]:
        return [self._from_row(row) for row in await self._rows(f"{_SELECT} ORDER BY name")]

    async def next_schedules(self, limit: int) -> list[Schedule]:
        query = f"{_SELECT} WHERE NOT paused ORDER BY next_at, name LIMIT :limit"
        return [self._from_row(row) for row in await self._rows(query, {"limit": limit})]

    async def change_schedule(
        self, schedule: Schedule, run: Run | None = None, events: Sequence[RunEvent] = ()
    ) -> bool:
        changes: list[Change] = [(_UPDATE, self._row_of(schedule))]
        if run is not None:
            changes.append((UPSERT_RUN, run_row(run, self._seal)))
        changes += [(INSERT_EVENT, event_row(event)) for event in events]
        return await self._change_all(changes, only_if_first=True)

    async def remove_schedule(self, name: str) -> bool:
        statement = "DELETE FROM {schema}.schedules WHERE name = :name"
        return await self._change(statement, {"name": name}, again=False) == 1

    def _row_of(self, schedule: Schedule) -> dict[str, Any]:
        error = schedule.error and self._seal.seal(
            to_json(schedule.error, default=str), f"schedule:{schedule.id}:error"
        )
        values = (
            schedule.id, storable(schedule.name), storable(schedule.flow), schedule.cron, schedule.every,
            schedule.zone, schedule.catch_up, schedule.queue, schedule.priority,
            storable(schedule.principal.id), groups_row(schedule.principal), schedule.created_at,
            schedule.next_at, schedule.paused, schedule.last_at, schedule.last_run, error, schedule.sealed,
            schedule.version,
        )  # fmt: skip
        return dict(zip(SCHEDULE, values, strict=True))

    def _from_row(self, row: tuple[Any, ...]) -> Schedule:
        from spindle.domain.schedule import Schedule

        values = dict(zip(SCHEDULE, row, strict=True))
        principal = principal_of(values.pop("principal"), values.pop("groups"))
        error = values.pop("error")
        if error is not None:
            error = opened_error(error, f"schedule:{values['id']}:error", self._seal)
        paused = bool(values.pop("paused"))
        return Schedule(**values, principal=principal, error=error, paused=paused)


_SELECT = select("schedules", SCHEDULE)
_INSERT = f"{insert('schedules', SCHEDULE)} ON CONFLICT (name) DO NOTHING"
_UPDATE = """
    UPDATE {schema}.schedules SET next_at = :next_at, paused = :paused, last_at = :last_at,
        last_run = :last_run, error = :error, version = :version + 1
    WHERE id = :id AND version = :version
"""
