"""Runs of saved flows over HTTP: `POST /flows/NAME/runs` begins one, and it goes on by itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.calls.options import CallOptions
from spindle.calls.permissions import wants_approval
from spindle.domain.identity import LOCAL
from spindle.domain.json_schema import JsonObject, to_json
from spindle.errors import NotFoundError, PermissionDeniedError
from spindle.listening.response import Response
from spindle.rest.forms import JSON
from spindle.rest.paused import PATH
from spindle.serving.going_on import RunsGoingOn

if TYPE_CHECKING:
    from starlette.requests import Request

    from spindle.app import Spindle
    from spindle.domain.tool import Tool
    from spindle.serving.access import ServingAccess

logger = logging.getLogger("spindle")


class FlowRuns:
    """Begins runs of flows for whoever may see and call them."""

    def __init__(
        self, spindle: Spindle, access: ServingAccess, body: Callable[[Request], Awaitable[JsonObject]]
    ) -> None:
        """`body` reads the object that a request brings."""
        self._spindle = spindle
        self._access = access
        self._body = body
        self._going_on = RunsGoingOn("its request", partial(logger.warning, "%s"))

    async def begin(self, request: Request) -> Response:
        """Answers with the id of the run, once its flow and its inputs are checked and it is stored."""
        principal = self._access.principal(request.scope)
        inputs = await self._body(request)
        tool = await self._spindle.catalog.find(
            request.path_params["name"], principal, partial(self._access.shows, principal)
        )
        options = CallOptions(principal)
        flow = self._spindle.flows.library.load(self._file(tool))
        config = self._spindle.catalog.sources.config(tool.source)
        if principal.id != LOCAL.id and wants_approval(tool, config, options):
            raise PermissionDeniedError(
                f"{tool.name} is called only with approval", hint=f"ask for it: POST /tools/{tool.name}"
            )
        # The definition is kept with the run, so that its picture is that of the flow as it was then.
        name, given = await self._spindle.flows.to_submit(flow.definition, inputs, options)
        begun = partial(self._spindle.runner.begin, "flow", name, given, options)
        run = await self._within_quotas(tool, inputs, options, begun)
        if self._access.audit is not None:
            self._access.audit.did(principal, "flow.run", tool.name)
        headers = {"Location": f"{PATH}/{run}"}
        return Response(to_json({"run": run, "flow": tool.name}), 202, headers, JSON)

    def _file(self, tool: Tool) -> Path:
        library = self._spindle.flows.library
        for path in library.files():
            if tool.kind == "flows" and library.place(path) == tool.spec.place:
                return path
        raise NotFoundError(
            f"{tool.name} is not the flow of a file", hint=f"call it as a tool: POST /tools/{tool.name}"
        )

    async def _within_quotas(
        self,
        tool: Tool,
        inputs: JsonObject,
        options: CallOptions,
        begun: Callable[[], Awaitable[tuple[str, Coroutine[Any, Any, Any]]]],
    ) -> str:
        """Has the run stored and lets it go on; a quota holds its place until it has ended."""
        quotas = self._access.quotas
        if quotas is None:
            run, work = await begun()
            self._going_on.begin(work)
            return run
        stored: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def whole() -> None:
            run, work = await begun()
            stored.set_result(run)
            await work

        async def counted() -> None:
            try:
                await quotas.within(options.principal, tool.name, inputs, whole)
            except BaseException as error:
                if stored.done():
                    raise
                stored.set_exception(error)

        self._going_on.begin(counted())
        return await stored
