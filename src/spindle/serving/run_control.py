"""Runs as people see and steer them: listed, ended, let go on, and run again from a place of their own.

One sees one's own runs; an administrator, such as the owner, those of everybody.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, get_args

from spindle.calls.options import CallOptions
from spindle.domain.json_schema import JsonObject, is_object
from spindle.domain.run import RunStatus
from spindle.errors import ClientError, InvalidArgumentsError, NotFoundError, did_you_mean
from spindle.serving.going_on import RunsGoingOn

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from spindle.app import Spindle
    from spindle.domain.identity import Principal
    from spindle.domain.run import Run

logger = logging.getLogger("spindle")

MOST: Final = 200
"""Runs that one list holds."""
USUAL: Final = 50
ENDED: Final = frozenset({"done", "failed", "cancelled"})
STATUSES: Final[tuple[RunStatus, ...]] = get_args(RunStatus)
_FILTERS: Final = ("status", "kind", "name", "before", "limit")
_AGAIN: Final = ("from", "inputs", "step", "message")


def took(run: Run, now: float | None = None) -> float:
    """Returns the seconds that a run took, or has taken so far."""
    until = run.updated_at if run.status not in ("queued", "running") else now or time.time()
    return max(until - run.created_at, 0.0)


def status_of(text: str | None) -> RunStatus | None:
    """Returns the status of this name; None for nothing and for what is none."""
    return next((status for status in STATUSES if status == text), None)


async def find_run(app: Spindle, id: str, principal: Principal) -> Run:
    """Returns a run by its whole id. One that this principal may not see is not there."""
    run = await app.store.run(id) if id else None
    if run is None or run.id != id or not (principal.admin or run.principal.id == principal.id):
        raise NotFoundError(f"there is no run {id!r}", hint="it may be older than what is kept")
    return run


async def listed_runs(app: Spindle, asked: Mapping[str, str], principal: Principal) -> JsonObject:
    """Returns the runs that fit a query, as JSON, and the id after which the next page begins."""
    for name in asked:
        if name not in _FILTERS:
            hint = did_you_mean(name, _FILTERS, f"known are {', '.join(_FILTERS)}")
            raise InvalidArgumentsError(f"there is no parameter {name!r}", hint=hint)
    status = status_of(asked.get("status"))
    if asked.get("status") and status is None:
        raise InvalidArgumentsError(
            f"there is no status {asked['status'][:40]!r}", hint=f"known are {', '.join(STATUSES)}"
        )
    limit = asked.get("limit", str(USUAL))
    if not (limit.isascii() and limit.isdecimal() and 1 <= int(limit[:6]) <= MOST):
        raise InvalidArgumentsError(f"limit must be a whole number from 1 to {MOST}")
    found = await app.store.runs(
        limit=int(limit) + 1,
        status=status,
        principal=None if principal.admin else principal.id,
        kind=asked.get("kind") or None,
        name=asked.get("name") or None,
        before=asked.get("before") or None,
    )
    page = found[: int(limit)]
    older = page[-1].id if len(found) > len(page) else None
    return {"runs": [{**run.to_dict(), "duration": took(run)} for run in page], "older": older}


class RunControl:
    """Changes runs for people. What goes on does so behind the request."""

    def __init__(self, app: Spindle) -> None:
        self._app = app
        self._going_on = RunsGoingOn("a request", partial(logger.warning, "%s"))

    async def cancel(self, id: str, principal: Principal) -> None:
        """Ends a run, wherever it is. Raises ClientError for one that has ended otherwise."""
        run = await find_run(self._app, id, principal)
        if run.status not in ENDED:
            await self._app.runner.cancel(run, f"{principal.id} cancelled it")
            run = await find_run(self._app, id, principal)
        if run.status in ("done", "failed"):
            raise ClientError(
                f"run {run.id} is {run.status}", hint="only one that has not ended is cancelled"
            )

    async def resume(self, id: str, principal: Principal) -> JsonObject:
        """Lets a run go on that failed, was cancelled, or whose process died. Steps that are done are not
        made again."""
        run = await find_run(self._app, id, principal)
        runner = self._app.runner
        if run.status in ("failed", "cancelled"):
            self._going_on.begin(runner.submissions.retry(run.id))
        elif run.status == "done":
            raise ClientError(f"run {run.id} is done", hint="run it again instead")
        elif run.status == "paused" and await self._app.pauses(run=run.id):
            raise ClientError(f"run {run.id} waits for an answer", hint="answer what it asks")
        elif run.status == "queued" or (run.status == "running" and (run.lease or 0.0) > 0):
            raise ClientError(f"run {run.id} is {run.status}", hint="it goes on by itself")
        else:
            self._going_on.begin(runner.resume(run.id))
        return {"run": run.id}

    async def again(self, id: str, body: JsonObject, principal: Principal) -> JsonObject:
        """Starts another run like this one, and returns its id. Of a flow: from the node `from`, with what
        the nodes before it left in this run, or with other `inputs`. Of an agent: from its `step`, with a
        `message`."""
        for name in body:
            if name not in _AGAIN:
                raise InvalidArgumentsError(f"there is no {name!r}", hint=f"known are {', '.join(_AGAIN)}")
        run = await find_run(self._app, id, principal)
        if run.kind == "flow":
            new, work = await self._flow_again(run, body, principal)
        elif run.kind == "agent":
            new, work = await self._agent_again(run, body, principal)
        else:
            raise ClientError(f"run {run.id} is of a call", hint=f"call {run.name} again")
        self._going_on.begin(work)
        return {"run": new}

    async def _flow_again(
        self, run: Run, body: JsonObject, principal: Principal
    ) -> tuple[str, Coroutine[Any, Any, Any]]:
        from spindle.flows.text.document import from_record

        start, inputs = body.get("from"), body.get("inputs")
        if not (start is None or isinstance(start, str)) or not (inputs is None or is_object(inputs)):
            raise InvalidArgumentsError("`from` is the id of a node, `inputs` is an object")
        flows = self._app.flows
        _, recorded, _ = await flows.traced(run.id)
        document = recorded.get("definition")
        flow = from_record(document) if document is not None else run.name
        options = CallOptions(principal)
        given = recorded.get("inputs") if inputs is None else inputs
        reuse = run.id if start is not None else None
        name, kept = await flows.to_submit(flow, given, options, start=start, reuse=reuse)
        return await self._app.runner.begin("flow", name, kept, options)

    async def _agent_again(
        self, run: Run, body: JsonObject, principal: Principal
    ) -> tuple[str, Coroutine[Any, Any, Any]]:
        step, message = body.get("step"), body.get("message", "")
        if not (step is None or type(step) is int) or not isinstance(message, str):
            raise InvalidArgumentsError("`step` is a whole number, `message` is a text")
        if run.principal.id != principal.id:
            # What one user was told is not shown to others, nor are their accounts used.
            raise ClientError(f"run {run.id} belongs to {run.principal.id}", hint="only they go on with it")
        from spindle.agents.forking import forked

        record = await self._app.agents.record(run.id)
        job = forked(record, step, message)
        await self._app.agents.models_of(job.agent)
        options = CallOptions(principal)
        return await self._app.runner.begin("agent", job.agent.name, job.to_dict(), options, id=job.run)
