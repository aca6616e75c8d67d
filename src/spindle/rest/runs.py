"""Runs over HTTP for people: `GET /runs`, their traces, and what changes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from spindle.domain.json_schema import JsonObject, to_json
from spindle.errors import SpindleError
from spindle.listening.response import Response
from spindle.rest.forms import JSON
from spindle.serving.run_control import RunControl, find_run, listed_runs, took

if TYPE_CHECKING:
    from starlette.requests import Request

    from spindle.app import Spindle
    from spindle.domain.identity import Principal
    from spindle.serving.access import ServingAccess

T = TypeVar("T")


class RunsApi:
    """Lists runs, shows one, and steers it."""

    def __init__(
        self, spindle: Spindle, access: ServingAccess, body: Callable[[Request], Awaitable[JsonObject]]
    ) -> None:
        """`body` reads the object that a request brings."""
        self._spindle = spindle
        self._access = access
        self._body = body
        self._control = RunControl(spindle)

    async def listed(self, request: Request) -> Response:
        """Answers with the runs that fit the query."""
        principal = self._access.principal(request.scope)
        return _json(await listed_runs(self._spindle, dict(request.query_params), principal))

    async def trace(self, request: Request) -> Response:
        """Answers with a run, node by node."""
        run = await find_run(self._spindle, request.path_params["run"], self._access.principal(request.scope))
        body: JsonObject = {**run.to_dict(), "duration": took(run)}
        if run.kind == "agent":
            record = await self._spindle.agents.record(run.id)
            body |= {
                "task": record.job.task,
                "agent_events": [event.to_dict() for event in record.events()],
            }
        else:
            _, given, nodes = await self._spindle.flows.trace(run.id)
            body["inputs"] = given.get("inputs", given.get("arguments"))
            body["nodes"] = [node.to_dict() for node in nodes]
        body["pauses"] = [pause.to_dict() for pause in await self._spindle.pauses(run=run.id)]
        return _json(body)

    async def cancel(self, request: Request) -> Response:
        """Ends a run."""
        await self._noted(request, "run.cancel", self._control.cancel)
        return Response(status_code=204)

    async def resume(self, request: Request) -> Response:
        """Lets a run go on."""
        return _json(await self._noted(request, "run.resume", self._control.resume), 202)

    async def again(self, request: Request) -> Response:
        """Starts another run like it."""
        body = await self._body(request)

        async def again(run: str, principal: Principal) -> JsonObject:
            quotas, work = self._access.quotas, partial(self._control.again, run, body, principal)
            if quotas is None:
                return await work()
            found = await find_run(self._spindle, run, principal)
            return await quotas.within(principal, found.name, body.get("inputs") or {}, work)

        return _json(await self._noted(request, "run.again", again), 202)

    async def _noted(self, request: Request, action: str, do: Callable[[str, Principal], Awaitable[T]]) -> T:
        """Does something with a run, and has the audit log know of it."""
        run, principal = request.path_params["run"], self._access.principal(request.scope)
        error: BaseException | None = None
        try:
            return await do(run, principal)
        except SpindleError as refused:
            error = refused
            raise
        finally:
            if self._access.audit is not None:
                self._access.audit.did(principal, action, run, error)


def _json(body: JsonObject, status: int = 200) -> Response:
    return Response(to_json(body, default=str), status, media_type=JSON)
