"""The extension `io.modelcontextprotocol/tasks`: calls that a client asks after instead of waiting for them.

A task is a run: it is stored before the client is told of it, and any process of the workspace answers for
it. Its pauses are what the client is asked.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from spindle.domain.call import Result
from spindle.domain.json_schema import JsonObject, is_object
from spindle.domain.visible import visible
from spindle.errors import NotFoundError, SpindleError
from spindle.listening.headers import RequestHeaders
from spindle.mcp_protocol.errors import McpError
from spindle.mcp_protocol.names import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
)
from spindle.mcp_server.client_peer import answer_of, question_of, refusal
from spindle.mcp_server.convert import is_of_server, to_wire_error, to_wire_result
from spindle.mcp_server.inbound import RequestContext, inbound, is_modern

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from spindle.app import Spindle
    from spindle.domain.identity import Principal
    from spindle.domain.serve import ServeConfig
    from spindle.domain.tool import ToolSummary
    from spindle.mcp_server.client_peer import ClientPeer
    from spindle.mcp_server.handlers import Handler
    from spindle.mcp_server.listing import Listing
    from spindle.mcp_server.relay import ClientRelay
    from spindle.runs.outcomes import OpenPause, Outcome
    from spindle.runs.tasks import TaskState

    Doing = Awaitable[Outcome]

EXTENSION = "io.modelcontextprotocol/tasks"
POLL_MS = 500
STATUSES = {
    "queued": "working",
    "running": "working",
    "paused": "working",
    "done": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
}
"""By status of the run. One that waits for an answer of the client is `input_required`."""
NAME_HEADER = b"mcp-name"
AT_ONCE = frozenset({"agents", "flows"})
"""The kinds of sources whose tools are always tasks, for clients that know them."""


class TaskCreated(Exception):  # noqa: N818 - an answer, not a mistake
    """Carries the answer to a call that became a task."""

    def __init__(self, result: JsonObject) -> None:
        super().__init__("the call became a task")
        self.result = result


def knows_tasks(ctx: RequestContext) -> bool:
    """True if the client of a request takes a task for an answer."""
    capabilities = ctx.session.client_capabilities
    return is_modern(ctx) and capabilities is not None and EXTENSION in capabilities.get("extensions", {})


def _missing() -> McpError:
    return McpError(
        code=MISSING_REQUIRED_CLIENT_CAPABILITY,
        message=f"this needs a client with the extension {EXTENSION}",
        data={"requiredCapabilities": {"extensions": {EXTENSION: {}}}},
    )


class ServedTasks:
    """Tasks of the clients of a server."""

    def __init__(
        self, app: Spindle, listing: Listing, relay: ClientRelay, config: Callable[[], ServeConfig]
    ) -> None:
        self._app = app
        self._listing = listing
        self._tasks = app.runner.tasks
        self._relay = relay
        self._config = config

    @property
    def handlers(self) -> dict[str, Handler]:
        """By method, what answers it."""
        return {"tasks/get": self.get, "tasks/update": self.update, "tasks/cancel": self.cancel}

    # --- calls that become tasks

    async def at_once(
        self, ctx: RequestContext, principal: Principal, tool: ToolSummary, arguments: JsonObject
    ) -> None:
        """Raises TaskCreated where a call of this tool is a task from its beginning, and the error for a
        client that cannot have one."""
        support = "optional" if tool.kind in AT_ONCE else await self._listing.task_support(tool.name)
        if not knows_tasks(ctx):
            if support == "required":
                raise _missing()
            return
        if support in ("optional", "required"):
            most = self._config().quotas.tasks
            state = await self._tasks.start(tool.name, arguments, principal, most)
            raise TaskCreated(self._envelope(state, "task", "working"))

    async def patiently(
        self, ctx: RequestContext, principal: Principal, tool: ToolSummary, peer: ClientPeer, doing: Doing
    ) -> Outcome:
        """The outcome of a call. Raises TaskCreated if it takes long and its client knows tasks."""
        if not knows_tasks(ctx):
            return await doing
        call = asyncio.ensure_future(doing)
        try:
            while not (await asyncio.wait({call}, timeout=self._config().task_after))[0]:
                if peer.suspended is not None and peer.suspended.questions:
                    continue  # the client is asked first
                peer.leave()
                most = self._config().quotas.tasks
                state = await self._tasks.adopt(tool.name, call, principal, most)
                raise TaskCreated(self._envelope(state, "task", "working"))
        except BaseException as error:
            if not isinstance(error, TaskCreated):
                call.cancel()
            raise
        return call.result()

    # --- what clients ask of them

    async def get(self, ctx: RequestContext, principal: Principal, params: JsonObject) -> JsonObject:
        state = await self._state(ctx, principal, params)
        asked = {pause.token: question for pause, question in self._questions(ctx, state, principal)}
        if asked:
            return self._envelope(state, "complete", "input_required") | {"inputRequests": asked}
        outcome = state.outcome
        if isinstance(outcome, Result):
            result = self._wire(principal, state, outcome)
            return self._envelope(state, "complete", "completed") | {"result": result}
        if isinstance(outcome, SpindleError):
            return self._failed(ctx, state, outcome)
        status = STATUSES[state.run.status]
        found = self._envelope(state, "complete", status)
        if status == "failed":
            found |= {"error": {"code": INTERNAL_ERROR, "message": "how it ended was not recorded"}}
        if state.pauses:
            words = [visible(pause.message) for pause in state.pauses]
            links = [str(pause.details["url"]) for pause in state.pauses if "url" in pause.details]
            found["statusMessage"] = "; ".join(["a person has to answer, where Spindle runs", *words, *links])
        return found

    async def update(self, ctx: RequestContext, principal: Principal, params: JsonObject) -> JsonObject:
        state = await self._state(ctx, principal, params)
        answers = params.get("inputResponses")
        if not is_object(answers):
            raise McpError(code=INVALID_PARAMS, message="inputResponses must be an object")
        for pause, _ in self._questions(ctx, state, principal):
            # What was never asked, or has been answered, is no mistake.
            if pause.token in answers:
                value, refused = answer_of(pause, answers[pause.token])
                await self._tasks.answer(state, pause, value, refused, principal)
        return {}

    async def cancel(self, ctx: RequestContext, principal: Principal, params: JsonObject) -> JsonObject:
        try:
            await self._tasks.cancel(self._task_id(ctx, params), principal)
        except NotFoundError as error:
            raise McpError(code=INVALID_PARAMS, message=error.message) from None
        return {}

    async def _state(self, ctx: RequestContext, principal: Principal, params: JsonObject) -> TaskState:
        try:
            return await self._tasks.state(self._task_id(ctx, params), principal)
        except NotFoundError as error:
            raise McpError(code=INVALID_PARAMS, message=error.message) from None

    def _task_id(self, ctx: RequestContext, params: JsonObject) -> str:
        if not is_modern(ctx):
            raise McpError(code=METHOD_NOT_FOUND, message="Method not found")
        if not knows_tasks(ctx):
            raise _missing()
        task_id = params.get("taskId")
        if not isinstance(task_id, str):
            raise McpError(code=INVALID_PARAMS, message="taskId must be a text")
        scope = inbound(ctx).scope
        if scope is not None:
            named = RequestHeaders(scope).get(NAME_HEADER)
            if named and named.strip() != task_id:
                raise McpError(code=HEADER_MISMATCH, message="Mcp-Name does not match params.taskId")
        return task_id

    def _questions(
        self, ctx: RequestContext, state: TaskState, principal: Principal
    ) -> list[tuple[OpenPause, JsonObject]]:
        """The pauses that this client can be asked about, with the question."""
        found: list[tuple[OpenPause, JsonObject]] = []
        for pause in state.pauses:
            # Whoever makes a call does not allow it too.
            may = pause.kind != "approval" or self._app.runner.may_approve(pause, principal)
            question = question_of(ctx, pause) if may else None
            if question is not None:
                found.append((pause, question))
        return found

    def _envelope(self, state: TaskState, result_type: str, status: str) -> JsonObject:
        age = self._app.settings.retention().runs.age
        return {
            "resultType": result_type,
            "taskId": state.id,
            "status": status,
            "createdAt": _written(state.created_at),
            "lastUpdatedAt": _written(max(state.run.updated_at, state.created_at)),
            "ttlMs": int(age * 1000) if age else None,
            "pollIntervalMs": POLL_MS,
        }

    def _wire(self, principal: Principal, state: TaskState, result: Result) -> JsonObject:
        source = self._listing.source_of(state.run.name)
        wire = to_wire_result(result, lambda path: self._relay.file_link(principal, path), source)
        return {"resultType": "complete", **wire}

    def _failed(self, ctx: RequestContext, state: TaskState, error: SpindleError) -> JsonObject:
        """The error of a server is one of the protocol; all others are results that a model can read."""
        if not is_of_server(error):
            result = {"resultType": "complete", **to_wire_error(error)}
            return self._envelope(state, "complete", "completed") | {"result": result}
        found = refusal(ctx, error)
        data = {"data": found.data} if found.data is not None else {}
        return self._envelope(state, "complete", "failed") | {
            "statusMessage": found.message,
            "error": {"code": found.code, "message": found.message, **data},
        }


def _written(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
