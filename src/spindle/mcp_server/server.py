"""The catalog as an MCP server: one handler for each request of the protocol."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from spindle.auth.details import DetailSealer
from spindle.calls.requests import Client
from spindle.code_mode.limits import require_library
from spindle.domain import trail
from spindle.domain.json_schema import JsonObject
from spindle.domain.tool import Tool
from spindle.errors import (
    ConfigurationError,
    LoopError,
)
from spindle.mcp_protocol.errors import McpError
from spindle.mcp_protocol.names import INVALID_PARAMS
from spindle.mcp_server import code_mode, search_mode
from spindle.mcp_server.changes import Changes
from spindle.mcp_server.client_peer import (
    ClientPeer,
    loop_refusal,
)
from spindle.mcp_server.code_mode import CodeMode
from spindle.mcp_server.convert import (
    for_handshake_tool,
    to_wire_tool,
)
from spindle.mcp_server.handlers import Handler, answering, audited, watched
from spindle.mcp_server.inbound import RequestContext, inbound, is_modern
from spindle.mcp_server.kernel import Kernel
from spindle.mcp_server.listing import BadCursorError, Listing
from spindle.mcp_server.relay import ClientRelay
from spindle.mcp_server.requests import (
    COME_BACK,
    Ask,
    ClientRequest,
    answerable,
)
from spindle.mcp_server.search_mode import SearchMode
from spindle.mcp_server.suspended import SuspendedCalls
from spindle.mcp_server.tasks import EXTENSION, ServedTasks
from spindle.mcp_server.tool_calls import ToolCalls
from spindle.serving.connecting import ConnectTools
from spindle.serving.instruction import instruction
from spindle.serving.processes import Processes
from spindle.serving.relays import Relays

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.catalog.diff import SyncReport
    from spindle.domain.identity import Principal
    from spindle.domain.serve import ServeConfig
    from spindle.serving.access import ServingAccess

logger = logging.getLogger("spindle.serve")

FIRST_SYNC_TIMEOUT = 20.0
"""Seconds that a list waits, at most, for sources that were never asked for their tools."""
NO_TOOLS: Mapping[str, Tool] = {}


class CatalogServer:
    """Serves an open workspace. The transports bring requests in through `kernel`."""

    def __init__(self, app: Spindle, access: ServingAccess) -> None:
        if access.config.mode == "code":
            require_library()  # now, and not when somebody has written the first program
        self.app = app
        self.access = access
        self.connect = ConnectTools(app, self.access)
        self.listing = Listing(
            app.catalog,
            self.access,
            lambda: self.config.names,
            self.connect,
            {**search_mode.TOOLS, **code_mode.TOOLS},
        )
        self.relay = ClientRelay(app, self.access, logger.warning)
        self._search = SearchMode(app, self.listing, self.access)
        self._code = CodeMode(app, self._search)
        app.agents.code.serve(access.shows, self._within_quotas)
        self._workspace = app.catalog.sources.workspace
        text = instruction(self.config, app.settings.root)
        self.kernel = Kernel(text, {EXTENSION: {}})
        self.processes = Processes(app.store, DetailSealer(app.auth.keys), time.time)
        self.changes = Changes(app, self.access, self.relay, self.connect)
        self.relays = Relays(self.processes)
        self._waiting = SuspendedCalls(access, self.processes, self.relays)
        self._first_sync: asyncio.Task[Any] | None = None
        self.tasks = ServedTasks(app, self.listing, self.relay, lambda: self.config)
        self.calls = ToolCalls(
            app,
            access,
            self.listing,
            self._search,
            self._code,
            self.relay,
            self._waiting,
            self._synced,
            self.tasks,
        )
        self._register()

    def _register(self) -> None:
        handlers: dict[str, Handler] = {
            "tools/list": self._list_tools,
            "tools/call": self.calls.call,
            "resources/list": self._listing("resources", self.relay.resources),
            "resources/templates/list": self._listing("resourceTemplates", self.relay.templates),
            "resources/read": self._read_resource,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "prompts/list": self._listing("prompts", self.relay.prompts),
            "prompts/get": self._get_prompt,
            "completion/complete": self._complete,
            "logging/setLevel": self._set_level,
            **self.tasks.handlers,
        }
        for method, handler in handlers.items():
            handler = audited(handler, method, self.access.audit)
            self.kernel.answers[method] = answering(watched(handler))
        self.kernel.answers["subscriptions/listen"] = self.changes.listen
        self.handle_call = answering(watched(self.calls.call))

    @property
    def config(self) -> ServeConfig:
        """The settings in force at the moment: they may change while we serve."""
        return self.access.config

    async def start(self) -> None:
        """Begin to ask sources that were never asked, and to hear of changes."""
        self.changes.start()
        self.app.catalog.on_change(self._changed)
        if self._workspace in trail.inherited():
            # Its sources are not asked: no client will get an answer.
            logger.warning(
                "started by itself, so every request is refused; without %s it serves", trail.VARIABLE
            )
            return
        unasked = self.app.catalog.untried()
        if unasked:
            self._first_sync = asyncio.create_task(self._ask(unasked), name="first sync")

    def _changed(self, report: SyncReport) -> None:
        if report.source:
            return
        # The settings are others. Clients that come from now on get the text that they name.
        try:
            self.kernel.instructions = instruction(self.config, self.app.settings.root)
        except ConfigurationError as error:
            # It was there when the settings were taken over.
            logger.warning("the instruction stays as it was: %s", error.message)

    async def _ask(self, sources: list[str]) -> None:
        for report in await self.app.catalog.sync(sources):
            if report.error is not None:
                logger.warning("%s: %s", report.source, report.error["message"])

    async def close(self) -> None:
        """End what runs in the background. Calls that run are the transports' to end."""
        if self._first_sync is not None:
            self._first_sync.cancel()
            await asyncio.gather(self._first_sync, return_exceptions=True)
        await self._waiting.close()
        await self.changes.close()

    def way(self, params: JsonObject | None, before: trail.Trail) -> trail.Trail:
        """The trail that a request came by, after the trail `before` of its connection. Raises the refusal of
        one that came through this workspace before."""
        came = trail.in_params(params)
        found = came if came[: len(before)] == before else (*before, *came)
        if self._workspace in found:
            raise loop_refusal(LoopError.along(()))
        return found

    # --- tools

    async def _list_tools(self, ctx: RequestContext, principal: Principal, params: JsonObject) -> JsonObject:
        await self._synced()
        after = params.get("cursor")
        # On the first page, since some clients ask for no other.
        first = await self.listing.connect_tools(principal) if after is None else NO_TOOLS
        if self.config.mode == "code":
            offered = {**first, **await self._code.tools(principal)}
            return {"tools": self._marked(to_wire_tool(tool, name) for name, tool in offered.items())}
        if await self._offers_search(principal):
            offered = {**first, **search_mode.TOOLS}
            return {"tools": self._marked(to_wire_tool(tool, name) for name, tool in offered.items())}
        try:
            size = max(1, self.config.page_size - len(first))
            tools, cursor = await self.listing.page(principal, after, size)
        except BadCursorError:
            raise McpError(code=INVALID_PARAMS, message="Invalid cursor") from None
        tools = [*(to_wire_tool(tool, name) for name, tool in first.items()), *tools]
        if not is_modern(ctx):
            tools = [for_handshake_tool(tool) for tool in tools]
        return {"tools": self._marked(tools)} | ({"nextCursor": cursor} if cursor else {})

    def _marked(self, tools: Iterable[JsonObject]) -> list[JsonObject]:
        """The tools as another workspace gets them, which must be able to tell its own among them."""
        if not trail.current():
            return [*tools]
        return [trail.with_meta(tool, (self._workspace, *trail.in_params(tool))) for tool in tools]

    async def _offers_search(self, principal: Principal) -> bool:
        if self.config.mode == "auto":
            return len(await self.listing.visible(principal)) > self.config.max_tools
        return self.config.mode == "search"

    async def _within_quotas(
        self, principal: Principal, tool: str, arguments: Any, work: Callable[[], Awaitable[Any]]
    ) -> Any:
        quotas = self.access.quotas
        return await (work() if quotas is None else quotas.within(principal, tool, arguments, work))

    async def _synced(self) -> bool:
        """Waits a reasonable time for a sync that is under way, since many clients list the tools only
        once. Returns False if there is none."""
        if self._first_sync is None or self._first_sync.done():
            return False
        await asyncio.wait({self._first_sync}, timeout=FIRST_SYNC_TIMEOUT)
        return True

    # --- what sources have besides

    def _listing(
        self, key: str, listed: Callable[[Principal, Client], Awaitable[list[JsonObject]]]
    ) -> Handler:
        async def handle(ctx: RequestContext, principal: Principal, _params: JsonObject) -> JsonObject:
            return {key: await listed(principal, Client(ClientPeer(ctx, self.access)))}

        return handle

    async def _get_prompt(self, ctx: RequestContext, principal: Principal, params: JsonObject) -> JsonObject:
        return await self._relayed(ctx, principal, params, self.relay.prompt)

    async def _read_resource(
        self, ctx: RequestContext, principal: Principal, params: JsonObject
    ) -> JsonObject:
        return await self._relayed(ctx, principal, params, self.relay.read)

    async def _complete(self, ctx: RequestContext, principal: Principal, params: JsonObject) -> JsonObject:
        return await self._relayed(ctx, principal, params, self.relay.complete)

    async def _relayed(
        self, ctx: RequestContext, principal: Principal, params: JsonObject, ask: Ask
    ) -> JsonObject:
        peer = ClientPeer(ctx, self.access)
        request = ClientRequest(ctx, principal, params, peer, ask)
        if ctx.method not in COME_BACK:
            return await request.run()
        return await answerable(self._waiting, ctx, principal, request.key, peer, request.run)

    async def _subscribe(self, ctx: RequestContext, principal: Principal, params: JsonObject) -> JsonObject:
        client = Client(ClientPeer(ctx, self.access))
        await self.changes.subscribe(inbound(ctx).connection, str(params["uri"]), client)
        return {}

    async def _unsubscribe(self, ctx: RequestContext, principal: Principal, params: JsonObject) -> JsonObject:
        await self.changes.unsubscribe(inbound(ctx).connection, str(params["uri"]))
        return {}

    async def _set_level(self, ctx: RequestContext, principal: Principal, params: JsonObject) -> JsonObject:
        await self.changes.set_level(inbound(ctx).connection, params["level"])
        return {}
