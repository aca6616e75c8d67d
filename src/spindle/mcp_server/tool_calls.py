"""Calls of tools by MCP clients: a name → the tool that the client sees → the call, with all that is asked
meanwhile → the result as the protocol has it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from spindle.calls.options import CallOptions
from spindle.calls.sampling import answered_by, of_client
from spindle.calls.validate import Validation
from spindle.code_mode.workspace import KIND as CODE
from spindle.domain.json_schema import JsonObject, canonical, is_object
from spindle.errors import Interruption, LoopError, NotFoundError, ServerError, SpindleError
from spindle.mcp_protocol.errors import McpError
from spindle.mcp_protocol.names import INVALID_PARAMS, RATE_LIMITED
from spindle.mcp_server import code_mode, search_mode
from spindle.mcp_server.client_peer import (
    ANSWER,
    PAUSE_PREFIX,
    Again,
    ClientPeer,
    go_on,
    passed_on,
    paused,
    refusal,
)
from spindle.mcp_server.convert import (
    for_handshake_result,
    is_of_server,
    plain_wire,
    to_wire_error,
    to_wire_result,
)
from spindle.mcp_server.inbound import RequestContext, inbound, is_modern
from spindle.mcp_server.kept_answers import NOWHERE
from spindle.mcp_server.requests import MAX_ROUNDS, answerable, for_source, may_be_asked
from spindle.mcp_server.tasks import knows_tasks
from spindle.runs.outcomes import Finished, OpenPause, Outcome, Paused
from spindle.serving.connecting import KIND as CONNECT
from spindle.serving.quota_gate import is_used_up

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.calls.sampling import Sampling
    from spindle.domain.call import Result
    from spindle.domain.identity import Principal
    from spindle.domain.serve import ServeConfig
    from spindle.domain.tool import ToolSummary
    from spindle.mcp_server.code_mode import CodeMode
    from spindle.mcp_server.listing import Listing
    from spindle.mcp_server.relay import ClientRelay
    from spindle.mcp_server.search_mode import SearchMode
    from spindle.mcp_server.suspended import SuspendedCalls
    from spindle.mcp_server.tasks import ServedTasks
    from spindle.serving.access import ServingAccess


OURS = frozenset({CODE, CONNECT})
"""The kinds of tools of our own."""
MCP = "mcp"
"""The kind of sources that are MCP servers."""


@dataclass(slots=True)
class _ServedCall:
    """The call of a tool that its client sees."""

    ctx: RequestContext
    principal: Principal
    tool: ToolSummary
    arguments: JsonObject
    peer: ClientPeer


class ToolCalls:
    """Makes the calls of a server's clients."""

    def __init__(
        self,
        app: Spindle,
        access: ServingAccess,
        listing: Listing,
        search: SearchMode,
        code: CodeMode,
        relay: ClientRelay,
        waiting: SuspendedCalls,
        synced: Callable[[], Awaitable[bool]],
        tasks: ServedTasks,
    ) -> None:
        """`synced` waits for a first sync, and returns False if there was none to wait for."""
        self._app = app
        self._access = access
        self._listing = listing
        self._search = search
        self._code = code
        self._relay = relay
        self._waiting = waiting
        self._synced = synced
        self._tasks = tasks
        self._validation = Validation()

    @property
    def _config(self) -> ServeConfig:
        return self._access.config

    async def call(self, ctx: RequestContext, principal: Principal, params: JsonObject) -> JsonObject:
        """The result of a call, as the protocol of its client has it."""
        name = str(params["name"])
        arguments: JsonObject = params.get("arguments") or {}
        modern, tool = is_modern(ctx), self._listing.at_hand(principal, name)
        try:
            if tool is None:
                found = await self._looked_up(principal, name, arguments)
                if isinstance(found, dict):
                    return found if modern else for_handshake_result(found)
                tool, arguments = found
            if (
                "requestState" not in params
                and not self._listing.says_nothing_of_tasks(tool.name)
                and tool.kind not in OURS
            ):
                await self._tasks.at_once(ctx, principal, tool, arguments)
            peer = ClientPeer(ctx, self._access)
            call = _ServedCall(ctx, principal, tool, arguments, peer)
            free = self._access.quotas is None or "requestState" in params or tool.kind == CODE
            run = self._run if free else self._run_within_quotas
            if modern and ("requestState" in params or may_be_asked(peer)):
                key = tool.name, canonical(arguments)
                work = partial(run, call, params)
                wire = await answerable(self._waiting, ctx, principal, key, peer, work)
            else:
                wire = await run(call, params)
        except SpindleError as error:
            if is_used_up(error) and inbound(ctx).scope is not None:
                raise _too_many(error) from None
            wire = _reported(error, tool, params)
        return wire if modern else for_handshake_result(wire)

    def plainly_callable(self, principal: Principal, name: str) -> ToolSummary | None:
        """The tool of this name, if a call of it has nothing to pass but the path of every call. This holds
        while the rules and the listing are the same, and nobody traces or counts calls."""
        if self._access.quotas is not None:
            return None
        tool = self._listing.at_hand(principal, name)
        if tool is None or not self._listing.says_nothing_of_tasks(tool.name):
            return None
        return tool if tool.kind != CONNECT else None

    async def call_plainly(
        self, ctx: RequestContext, principal: Principal, tool: ToolSummary, arguments: JsonObject
    ) -> JsonObject:
        """The result of a call of such a tool by a client of the handshake era, which says nothing beside a
        name and arguments."""
        peer = ClientPeer(ctx, self._access)
        try:
            outcome = await self._made(tool, arguments, peer, CallOptions(principal, peer=peer))
            if isinstance(outcome, Finished) and outcome.result.asked is None:
                wire = self._wire(principal, tool, outcome.result)
            else:
                call = _ServedCall(ctx, principal, tool, arguments, peer)
                wire = await self._until_done(call, outcome)
        except (SpindleError, Interruption) as error:
            wire = _told(ctx, error, tool)
        finally:
            if peer.sending:
                await peer.settle()
        return for_handshake_result(wire)

    async def _looked_up(
        self, principal: Principal, name: str, arguments: JsonObject
    ) -> tuple[ToolSummary, JsonObject] | JsonObject:
        """The tool that is served under this name, and its arguments; or the result of a tool of our own."""
        found = await self._listing.resolve(principal, name)
        if found is None and await self._synced():
            found = await self._listing.resolve(principal, name)
        if found is None and name in code_mode.TOOLS and self._config.mode == "code":
            self._validation.check_arguments(code_mode.TOOLS[name], arguments)
            if name == code_mode.SEARCH:
                return await self._code.search(principal, arguments)
            if name == code_mode.DESCRIBE:
                return await self._code.describe(principal, arguments)
            return code_mode.RUN, arguments
        if found is None and name in search_mode.TOOLS and self._config.mode in ("search", "auto"):
            self._validation.check_arguments(search_mode.TOOLS[name], arguments)
            if name == search_mode.SEARCH:
                return await self._search.search(principal, arguments)
            if name == search_mode.DESCRIBE:
                return await self._search.describe(principal, arguments)
            found = await self._search.find(principal, str(arguments["name"]))
            arguments = arguments.get("arguments", {})
        found = found or await self._listing.connect_tool(principal, name)
        if found is None:
            raise await self._unknown(principal, name)
        return found, arguments

    async def _run_within_quotas(self, call: _ServedCall, params: JsonObject) -> JsonObject:
        quotas, work = self._access.quotas, partial(self._run, call, params)
        if quotas is None:
            return await work()
        return await quotas.within(call.principal, call.tool.name, call.arguments, work)

    async def _run(self, call: _ServedCall, params: JsonObject) -> JsonObject:
        try:
            state, answers = for_source(params)
            if isinstance(state, str) and state.startswith(PAUSE_PREFIX):
                doing = self._came_back(call, state.removeprefix(PAUSE_PREFIX), answers)
            else:
                given = {"inputResponses": answers, "requestState": state}
                sent = {name: value for name, value in given.items() if value is not None}
                doing = self._begin(call, sent or None)
            outcome = await (self._patiently(call, doing) if knows_tasks(call.ctx) else doing)
            return await self._until_done(call, outcome)
        finally:
            if call.peer.sending:
                await call.peer.settle()

    async def _patiently(self, call: _ServedCall, doing: Awaitable[Outcome]) -> Outcome:
        return await self._tasks.patiently(call.ctx, call.principal, call.tool, call.peer, doing)

    async def _until_done(self, call: _ServedCall, outcome: Outcome) -> JsonObject:
        """The result of a call with this outcome, once the client has answered all that is asked first."""
        ctx, principal, tool, peer = call.ctx, call.principal, call.tool, call.peer
        for _ in range(MAX_ROUNDS):
            if isinstance(outcome, Finished) and outcome.result.asked is None:
                return self._wire(principal, tool, outcome.result)
            if isinstance(outcome, Finished):
                done = await passed_on(ctx, peer, outcome.result.asked or {})
            elif isinstance(outcome, Paused):
                await self._app.runner.keep_newest(principal, self._config.quotas.suspended)
                done = await paused(self._app, ctx, peer, outcome.pauses[0])
            else:
                raise ServerError(f"another process continues this call of {tool.name}")
            if isinstance(done, Again):
                outcome = await self._patiently(call, self._start(call, done.answers))
            elif isinstance(done, dict):
                return done
            else:
                outcome = done
        raise ServerError(f"{tool.name} asked more than {MAX_ROUNDS} times for further input")

    def _begin(self, call: _ServedCall, answers: JsonObject | None) -> Awaitable[Outcome]:
        """Starts a call, unless its run waits where another process has left it."""
        token = inbound(call.ctx).pause
        return self._start(call, answers) if token is None else self._still_waiting(call.principal, token)

    async def _still_waiting(self, principal: Principal, token: str) -> Outcome:
        pause = await self._pause(principal, token)
        return Paused(pause.run_id, (pause,))

    def _start(self, call: _ServedCall, answers: JsonObject | None) -> Awaitable[Outcome]:
        tool, arguments, peer = call.tool, call.arguments, call.peer
        progress = peer.progress if peer.wants_progress else None
        options = CallOptions(
            call.principal,
            None,
            progress,
            use_cache=answers is None,
            peer=peer,
            answers=answers,
            meta=peer.meta,
        )
        if tool.kind == CONNECT:
            return self._app.runner.connect(tool.source, options)
        if tool.kind == CODE:
            peer.goes_on = NOWHERE  # tools may have been called before one of them asks
            given = code_mode.given(self._config, arguments)
            start, model = partial(self._app.runner.start, CODE, tool.name, given, options), of_client(peer)
            return start() if model is None else _with_model(model, start)
        return self._made(tool, arguments, peer, options)

    def _made(
        self, tool: ToolSummary, arguments: JsonObject, peer: ClientPeer, options: CallOptions
    ) -> Awaitable[Outcome]:
        model = of_client(peer)
        if model is None:
            return self._app.runner.run(tool.name, arguments, options)
        return _with_model(model, partial(self._app.runner.run, tool.name, arguments, options))

    async def _came_back(self, call: _ServedCall, token: str, answers: Any) -> Outcome:
        """A client of 2026-07-28 brings the answer to a pause."""
        pause = await self._pause(call.principal, token)
        return await go_on(self._app, pause, answers.get(ANSWER) if is_object(answers) else None, call.peer)

    async def _pause(self, principal: Principal, token: str) -> OpenPause:
        open_pauses = await self._app.pauses(principal=principal)
        pause = next((item for item in open_pauses if item.token == token), None)
        if pause is None:
            raise NotFoundError(
                "the call no longer waits for this answer", hint="make it again from the start"
            )
        return pause

    def _wire(self, principal: Principal, tool: ToolSummary, result: Result) -> JsonObject:
        if (plain := plain_wire(result)) is not None:
            return plain
        for block in result.content:
            if block.uri is not None:
                self._relay.linked(block.uri, tool.source)
        return to_wire_result(result, partial(self._relay.file_link, principal), tool.source)

    async def _unknown(self, principal: Principal, name: str) -> McpError:
        if self._access.audit is not None:
            self._access.audit.unknown(principal.id, name)
        try:
            await self._search.find(principal, name)
        except NotFoundError as error:
            said = error.hint_for("model")
            hint = f"; {said}" if said and "mean" in said else ""
            return McpError(code=INVALID_PARAMS, message=f"Unknown tool: {name}{hint}")
        return McpError(code=INVALID_PARAMS, message=f"Unknown tool: {name}")


async def _with_model(model: Sampling, start: Callable[[], Awaitable[Outcome]]) -> Outcome:
    # What the tool calls in its turn may ask for a model too, and the client's own is the nearest.
    with answered_by(model):
        return await start()


def _too_many(error: SpindleError) -> McpError:
    """Over HTTP the end of a quota is an error with a status of its own, for which proxies and clients know
    how to wait; over pipes it is a result that a model reads."""
    return McpError(RATE_LIMITED, f"{error.message} ({error.hint})", {"retryAfter": error.retry_after})


def _told(ctx: RequestContext, error: SpindleError | Interruption, tool: ToolSummary) -> JsonObject:
    """The result that reports the end of a call. Raises the error of the protocol where it is one."""
    try:
        if isinstance(error, SpindleError):
            return _reported(error, tool, {})
    except SpindleError:
        pass
    raise refusal(ctx, error) from error


def _reported(error: SpindleError, tool: ToolSummary | None, params: JsonObject) -> JsonObject:
    """The result that reports the error of a call. Raises the error where it is the answer itself."""
    if isinstance(error, LoopError):
        raise error
    coded = "requestState" in params and is_object(error.details) and "code" in error.details
    if coded or (tool is not None and tool.kind == MCP and is_of_server(error)):
        # What the server answered with goes on as it came: its code and data are for the client.
        raise error
    return to_wire_error(error)
