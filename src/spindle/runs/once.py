"""Calls whose runs have ids that the caller chose: made once, however often they are asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakValueDictionary

from spindle.errors import PermissionDeniedError
from spindle.runs.outcomes import Outcome, Paused
from spindle.runs.record import kept

if TYPE_CHECKING:
    from spindle.calls.options import CallOptions
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.run import Run
    from spindle.ports.store import RunStore
    from spindle.runs.executions import Executions
    from spindle.runs.outcomes import OpenPause


class RunsGoOn(Protocol):
    """Continues runs and lists their pauses."""

    def resume(self, token: str) -> Awaitable[Outcome]: ...
    def pauses(self, *, run: str) -> Awaitable[list[OpenPause]]: ...


class CallsOnce:
    """Calls of frameworks that do a step again from its beginning after a pause: the same call has the same
    id then, and what was done is not done again."""

    def __init__(self, runs: RunsGoOn, executions: Executions, store: RunStore) -> None:
        self._runs = runs
        self._executions = executions
        self._store = store
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By id, the turns of those who ask for the same call at the same time."""

    async def call(self, tool: str, arguments: JsonObject, options: CallOptions) -> Outcome:
        """Makes the call with the id in `options`, or continues its run. Raises what the call raised."""
        id = options.run_id
        assert id is not None
        turn = self._turns.setdefault(id, asyncio.Lock())
        async with turn:
            run = await self._store.run(id)
            if run is not None:
                return await self._continued(run, options)
            if not options.is_recorded:
                return await self._executions.call(tool, arguments, options)
            given: dict[str, Any] = {"tool": tool, "arguments": arguments}
            run = self._executions.new_run("call", tool, options, id)
            journal = self._executions.journal(run, kept(given, options))
            await journal.save()
            return await self._executions.execute(journal, options)

    async def _continued(self, run: Run, options: CallOptions) -> Outcome:
        if run.principal.id != options.principal.id:
            raise PermissionDeniedError(f"run {run.id} is another user's")
        if run.status == "paused":
            waiting = await self._runs.pauses(run=run.id)
            # A consent may have been given without anybody saying so here: to try is to see.
            if any(pause.kind != "consent" for pause in waiting):
                return Paused(run.id, tuple(waiting))
        return await self._runs.resume(run.id)
