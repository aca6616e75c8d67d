"""The REST API: the two documents that describe it, and one path by which every tool is called."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Route

from spindle.calls.caller import CallOptions
from spindle.domain import trail
from spindle.domain.json_schema import JsonObject, from_json, is_object, to_json
from spindle.errors import (
    AuthorizationRequired,
    Interruption,
    InvalidArgumentsError,
    LoopError,
    NotFoundError,
    ServerError,
    did_you_mean,
)
from spindle.listening.response import Response
from spindle.ports.store import ToolFilter
from spindle.rest import openapi, pages, utcp
from spindle.rest.events import ResultStream, Steps
from spindle.rest.flow_runs import FlowRuns
from spindle.rest.forms import answer, wanted
from spindle.rest.paused import PATH, StoredCall, look_at, result_of
from spindle.rest.pauses import PausesApi
from spindle.rest.runs import RunsApi
from spindle.rest.submitted import placing_of, served_queues, wants_async
from spindle.runs.outcomes import Finished, Paused
from spindle.serving.access import ServingAccess
from spindle.serving.browser_sessions import SESSION
from spindle.serving.connecting import ConnectTools
from spindle.serving.consent_links import consent_link
from spindle.serving.front import FrontLink, FrontPage, front_or_list
from spindle.serving.guard import Guard
from spindle.serving.operating import Operating, ServedConsole
from spindle.serving.problems import body_of, of_error, of_result, problem, respond
from spindle.serving.published import PublishedRegistry
from spindle.serving.resource import base_url
from spindle.telemetry import tracing

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope

    from spindle.app import Spindle
    from spindle.domain.call import Result
    from spindle.domain.run import Run
    from spindle.domain.serve import ServeConfig
    from spindle.domain.tool import Tool
    from spindle.runs.placing import Placing

T = TypeVar("T")
logger = logging.getLogger("spindle")

_FILTERS = ("source", "kind", "tag", "filter")

_ABOUT = "This server lets programs call the tools of one workspace over HTTP."
_HOW = "A tool is called by POST /tools/NAME with its arguments as JSON."
_LINKS = (
    FrontLink("docs", "/docs", "try the tools: a page with a form for each"),
    FrontLink("openapi", "/openapi.json", "all tools as an OpenAPI 3.1 document"),
    FrontLink("utcp", "/utcp", "all tools as a UTCP manual"),
)


class _RefusedError(Exception):
    """A request that cannot be one."""

    def __init__(self, body: JsonObject) -> None:
        super().__init__(body["message"])
        self.body = body


def make_app(spindle: Spindle, access: ServingAccess, console: ServedConsole | None = None) -> ASGIApp:
    """The whole API for an open workspace, behind its guard. The workspace was opened with
    `visible=access.shows`, so that calls keep to the same rules as lists."""
    app = make_api(spindle, access)
    published = Operating(PublishedRegistry(app, spindle, access), spindle, access, console)
    return Guard(FrontPage(published, access, _ABOUT, _LINKS, _HOW), access, _public)


def make_api(spindle: Spindle, access: ServingAccess) -> ASGIApp:
    """The API alone, for a server that has a guard."""
    api = _Api(spindle, access)
    routes = [
        *(Route(path, pages.page, methods=["GET"]) for path in sorted(pages.PATHS)),
        api.route("/openapi.json", "GET", api.openapi),
        api.route("/utcp", "GET", api.utcp),
        api.route("/tools/{name}", "POST", api.call),
        api.route(f"{PATH}/openapi.json", "GET", api.people.document),
        api.route(f"{PATH}/{{run}}", "GET", api.run),
        api.route("/sources/{name}/connect", "POST", api.connect),
        api.route("/flows/{name}/runs", "POST", api.flow_runs.begin),
        api.route("/pauses", "GET", api.people.listed),
        api.route("/pauses/{token}", "POST", api.people.answer),
        api.route(PATH, "GET", api.runs.listed),
        api.route(f"{PATH}/{{run}}", "DELETE", api.runs.cancel),
        api.route(f"{PATH}/{{run}}/trace", "GET", api.runs.trace),
        api.route(f"{PATH}/{{run}}/resume", "POST", api.runs.resume),
        api.route(f"{PATH}/{{run}}/again", "POST", api.runs.again),
    ]
    # It sends whatever such a handler returns, of its own class or not.
    return Starlette(routes=routes, exception_handlers={HTTPException: cast(Any, _http_error)})


def _public(scope: Scope, config: ServeConfig) -> Literal["page", "list"] | None:
    is_page = scope["method"] in ("GET", "HEAD") and scope["path"].rstrip("/") in pages.PATHS
    return "page" if is_page else front_or_list(scope, config)


class _Api:
    def __init__(self, spindle: Spindle, access: ServingAccess) -> None:
        self._spindle = spindle
        self._access = access
        self._workspace = spindle.catalog.sources.workspace
        self._connect = ConnectTools(spindle, access)
        self.people = PausesApi(spindle, access, self._arguments)
        self.runs = RunsApi(spindle, access, self._arguments)
        self.flow_runs = FlowRuns(spindle, access, self._arguments)

    def route(self, path: str, method: str, handle: Callable[[Request], Awaitable[Response]]) -> Route:
        """Has requests handled, each in a span of its own. Turns every error into a response."""

        async def handled(request: Request) -> Response:
            scope = request.scope
            whose = self._access.principal(scope).id
            return await tracing.served_http(request.method, path, scope, whose, answered(request))

        async def answered(request: Request) -> Response:
            try:
                return await handle(request)
            except _RefusedError as refused:
                return respond(refused.body)
            except StoredCall as paused:
                return paused.response()
            except ClientDisconnect:
                return Response(status_code=499)  # nobody reads it
            except asyncio.CancelledError:
                if self._access.running.is_revoked():
                    raise
                # Else only the end of the server cancels a request, and the request ends with this answer.
                return respond({**problem(503, "cancelled", "the server is stopping"), "retryable": True})
            except (Exception, Interruption) as error:  # noqa: BLE001 - the edge
                return _failed(error)

        return Route(path, handled, methods=[method])

    # --- documents

    async def openapi(self, request: Request) -> Response:
        tools = await self._tools(request, ())
        url, token = self._url(request), self._access.wants_token
        made = await asyncio.to_thread(
            openapi.document, tools, url, wants_token=token, workspace=self._workspace,
            queues=served_queues(self._spindle),
        )  # fmt: skip
        return _document(made)

    async def utcp(self, request: Request) -> Response:
        tools = await self._tools(request, ("template",))
        named = request.query_params.get("template", "http")
        if not utcp.is_template(named):
            raise _RefusedError(
                problem(400, "invalid_arguments", f"there is no template {named!r}", "http or sse")
            )
        url, token = self._url(request), self._access.wants_token
        made = await asyncio.to_thread(
            utcp.manual, tools, url, wants_token=token, template=named, workspace=self._workspace
        )
        return _document(made)

    async def _tools(self, request: Request, further: tuple[str, ...]) -> list[Tool]:
        given = request.query_params
        known = (*_FILTERS, *further)
        for name in given:
            if name not in known:
                hint = did_you_mean(name, known, f"known are {', '.join(known)}")
                raise _RefusedError(
                    problem(400, "invalid_arguments", f"there is no parameter {name!r}", hint)
                )
        source, kind, tag, pattern = (given.get(name) for name in _FILTERS)
        principal = self._access.principal(request.scope)
        connect = await self._connect.tools(principal, self._names)
        waiting = await self._connect.waiting(principal)
        if self._access.audit is not None:
            self._access.audit.did(principal, "list.tools", request.url.path)
        found = await self._spindle.catalog.whole_tools(ToolFilter(source, kind, tag, pattern))
        seen = [tool for tool in found if self._access.visible(principal, tool)]
        if source is not None:
            is_known = source in self._spindle.catalog.sources.names
            if not is_known or (found and not seen):
                raise NotFoundError(f"there is no source {source!r}", source=source)
        # What stands for tools that are not known yet passes the filters that are about its source.
        standing = [tool for tool in connect.values() if source in (None, tool.source)]
        return [*standing, *(tool for tool in seen if tool.source not in waiting)]

    async def _names(self) -> set[str]:
        return {tool.name for tool in await self._spindle.tools()}

    def _url(self, request: Request) -> str:
        return base_url(self._access.config, request.scope)

    # --- calls

    async def call(self, request: Request) -> Response:
        name: str = request.path_params["name"]
        arguments = await self._arguments(request)
        form = wanted(request.headers.get("accept", ""))
        steps = Steps() if form == "events" else None
        options = CallOptions(principal=self._access.principal(request.scope), on_progress=steps)
        way = trail.read(request.headers.get(trail.HEADER))
        if self._workspace in way:
            raise LoopError.along(())
        placing = placing_of(self._spindle, request.query_params, is_async=wants_async(request.headers))
        with trail.following(way):
            if placing is not None:
                await self._submitted(name, arguments, options, placing)
            work = self._called(name, arguments, options)
            call = asyncio.create_task(work, name=f"call of {name}")
        # Who goes away before the answer has given the call up.
        left = asyncio.create_task(_left(request.receive), name=f"client of {name}")
        left.add_done_callback(lambda _: call.cancel())
        try:
            if steps is not None:
                return _Whole(ResultStream(name, call, steps), call, left)
            result = await self._result(call, left)
        except BaseException:
            call.cancel()
            left.cancel()
            raise
        left.cancel()
        return respond(of_result(name, result)) if result.is_error else await answer(result, form)

    async def run(self, request: Request) -> Response:
        """Answers how a call ended that had to wait."""
        result = await look_at(
            self._spindle, request.path_params["run"], self._access.principal(request.scope)
        )
        form = wanted(request.headers.get("accept", ""))
        return respond(of_result("", result)) if result.is_error else await answer(result, form)

    async def connect(self, request: Request) -> Response:
        """Asks whoever is served for the consent that a source wants, or says that it is given."""
        name, principal = request.path_params["name"], self._access.principal(request.scope)
        asking = self._spindle.catalog.consents.asked_for()
        if name not in asking or not self._access.connects(principal, name, name):
            raise NotFoundError(f"there is no source {name!r} that wants a consent", source=name)
        if SESSION in request.scope:  # a browser, which comes back to the console
            pause = (await self._arguments(request)).get("pause")
            token = str(pause) if pause is not None else None
            link = await consent_link(self._spindle, self._access, request.scope, name, principal, token)
            return Response(to_json(link), media_type="application/json")
        outcome = await self._spindle.connect(name, principal)
        body: JsonObject = {"name": name, "connected": isinstance(outcome, Finished)}
        if isinstance(outcome, Paused):
            body["consents"] = [pause.details for pause in outcome.pauses]
        return Response(to_json(body, default=str), media_type="application/json")

    async def _submitted(
        self, name: str, arguments: JsonObject, options: CallOptions, placing: Placing
    ) -> NoReturn:
        """Puts a call into a queue, and raises the answer that says so."""
        submissions = self._spindle.runner.submissions

        async def submitted() -> Run:
            return await submissions.submit_call(name, arguments, options, placing)

        run = await self._within_quotas(name, arguments, options, submitted)
        if self._access.audit is not None:
            self._access.audit.did(options.principal, "run.submit", name)
        raise StoredCall(run.id, is_queued=run.status == "queued", applied=True)

    async def _within_quotas(
        self, name: str, arguments: JsonObject, options: CallOptions, work: Callable[[], Awaitable[T]]
    ) -> T:
        quotas, principal = self._access.quotas, options.principal
        if quotas is None:
            return await work()
        tool = await self._spindle.show(name) if self._access.shows(principal, name) else None
        return await quotas.within(principal, tool.name if tool is not None else name, arguments, work)

    async def _made(self, name: str, arguments: JsonObject, options: CallOptions) -> Result:
        return await result_of(self._spindle, await self._spindle.run(name, arguments, options))

    async def _called(self, name: str, arguments: JsonObject, options: CallOptions) -> Result:
        connect = await self._connect.find(options.principal, name, self._names)
        if connect is None:
            work = partial(self._made, name, arguments, options)
            return await self._within_quotas(name, arguments, options, work)
        outcome = await self._spindle.connect(connect.source, options.principal)
        if isinstance(outcome, Finished):
            return outcome.result
        if isinstance(outcome, Paused):
            for pause in outcome.pauses:
                raise AuthorizationRequired(pause.message, source=pause.source, details=pause.details)
        raise ServerError(f"another process connects {connect.source} at this moment", retryable=True)

    @staticmethod
    async def _result(call: asyncio.Task[Result], left: asyncio.Task[None]) -> Result:
        try:
            return await call
        except asyncio.CancelledError:
            if left.done():
                raise ClientDisconnect from None
            raise

    async def _arguments(self, request: Request) -> JsonObject:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        hint = "send less, or raise serve.max_body_size"
        body = await body_of(request, self._access.config.max_body_size, hint)
        if not body.strip():
            return {}
        # A page may send other kinds to any server without asking it first.
        if kind != "application/json" and not kind.endswith("+json"):
            hint = "send Content-Type: application/json"
            raise _RefusedError(problem(415, "invalid_arguments", "the arguments must be JSON", hint))
        try:
            arguments = from_json(body)
        except ValueError as error:
            raise InvalidArgumentsError(f"the body is not JSON: {error}") from None
        if not is_object(arguments):
            raise InvalidArgumentsError("the body must be a JSON object with the tool's arguments")
        return arguments


class _Whole(Response):
    """An answer that is sent while its call runs, and takes the call with it when it ends early."""

    def __init__(self, stream: ResultStream, call: asyncio.Task[Any], left: asyncio.Task[None]) -> None:
        super().__init__()
        self._stream = stream
        self._tasks = (call, left)

    async def __call__(self, *asgi: Any) -> None:
        try:
            await self._stream(*asgi)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _document(made: JsonObject) -> Response:
    return Response(to_json(made, default=str), media_type="application/json")


def _failed(error: BaseException) -> Response:
    body = of_error(error)
    if body["category"] == "internal":
        logger.error("a request failed", exc_info=error)
    return respond(body)


def _http_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        body = problem(
            404,
            "not_found",
            "there is nothing here",
            "see /docs, /openapi.json, /utcp, /tools/NAME, /runs/ID and /pauses",
        )
    else:
        body = problem(error.status_code, "client", error.detail.lower())
    return respond(body, error.headers)
