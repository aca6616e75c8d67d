"""The state of triggers, as every store of ours keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spindle.domain.json_schema import to_json
from spindle.stores.rows import storable
from spindle.stores.run_rows import opened_error
from spindle.stores.sql import SqlQueries, insert, select

if TYPE_CHECKING:
    from spindle.domain.trigger_state import TriggerState

TRIGGER = ("name", "runs", "last_at", "last_run", "error")


class SqlTriggers(SqlQueries):
    """The part of the store that `TriggerStore` describes."""

    async def save_trigger(self, state: TriggerState, *, happened: bool) -> None:
        error = state.error and self._seal.seal(
            to_json(state.error, default=str), f"trigger:{state.name}:error"
        )
        values = (storable(state.name), state.runs, state.last_at, state.last_run, error)
        await self._change(_HAPPENED if happened else _HEARD, dict(zip(TRIGGER, values, strict=True)))

    async def triggers(self) -> dict[str, TriggerState]:
        from spindle.domain.trigger_state import TriggerState

        rows = await self._rows(select("triggers", TRIGGER))
        return {
            name: TriggerState(
                name, runs, last_at, last_run,
                None if error is None else opened_error(error, f"trigger:{name}:error", self._seal),
            )
            for name, runs, last_at, last_run, error in rows
        }  # fmt: skip


_INSERT = insert("triggers", TRIGGER).replace(".triggers", ".triggers AS known")
_HAPPENED = f"""
    {_INSERT}
    ON CONFLICT (name) DO UPDATE SET runs = known.runs + excluded.runs,
        last_at = excluded.last_at, last_run = COALESCE(excluded.last_run, known.last_run),
        error = excluded.error
"""
_HEARD = f"""
    {_INSERT}
    ON CONFLICT (name) DO UPDATE SET error = excluded.error
"""
