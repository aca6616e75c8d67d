"""Penguiflow's ToolNode: the tools of one source, for a planner's catalog."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.calls.options import CallOptions
from spindle.compat.penguiflow.auth import OAuthManager
from spindle.compat.penguiflow.config import AuthType, ExternalToolConfig, ToolContext, TransportType
from spindle.compat.penguiflow.errors import ToolAuthError, ToolNodeError, adapt_exception
from spindle.compat.penguiflow.node_specs import NodeSpec, Registry, arguments_of, node_spec
from spindle.compat.penguiflow.source_settings import source_table, variable_of
from spindle.compat.private import opened, output_of
from spindle.domain.identity import LOCAL, Credential, Principal
from spindle.errors import NotFoundError, SpindleError, did_you_mean, from_description
from spindle.http.credentials import bearer
from spindle.ports.store import ToolFilter

if TYPE_CHECKING:
    from pydantic import BaseModel

    from spindle.app import Spindle
    from spindle.domain.tool import Tool
    from spindle.opening import Opening

PAUSE_REASON = "external_event"
NOBODY = Principal("")
"""The one on whose behalf tools are listed without a user. No user has this id."""


@dataclass(eq=False)
class ToolNode:
    """The tools of one external source. `connect` asks for them, `call` takes the path of every Spindle call:
    validation, the user's credential, limits, retries, record."""

    config: ExternalToolConfig
    registry: Registry
    auth_manager: OAuthManager | None = None
    _opening: Opening | None = field(default=None, init=False, repr=False)
    _app: Spindle | None = field(default=None, init=False, repr=False)
    _specs: list[NodeSpec] = field(default_factory=list[NodeSpec], init=False, repr=False)
    _names: dict[str, str] = field(default_factory=dict[str, str], init=False, repr=False)
    """Names that planners use, each with the tool's name in the catalog."""
    _registered: set[str] = field(default_factory=set[str], init=False, repr=False)
    _connecting: asyncio.Lock = field(default_factory=asyncio.Lock, init=False, repr=False)

    async def connect(self, user_id: str | None = None) -> None:
        """Asks the source for its tools. Some servers tell them only to a user with a token: `user_id` says
        whose to show. Does nothing when it is connected."""
        async with self._connecting:
            if self._app is not None:
                return
            try:
                sources = {self.config.name: source_table(self.config)}
                opening = opened(
                    Path.cwd(), sources, credentials=self._credential, origin="ExternalToolConfig"
                )
                app = await opening.__aenter__()
            except SpindleError as error:
                raise self._adapted(error) from error
            try:
                self._offer(await self._discovered(app, Principal(user_id) if user_id else NOBODY))
            except BaseException:
                await opening.__aexit__(None, None, None)
                raise
            self._opening, self._app = opening, app

    def get_tools(self) -> list[NodeSpec]:
        """Returns the tools, named `source.tool`. Raises ToolNodeError before `connect`."""
        self._connected()
        return list(self._specs)

    async def call(self, tool_name: str, args: Mapping[str, Any], ctx: ToolContext) -> Any:
        """Calls a tool, by its name with or without the source's, and returns its output: the structured data
        where it gives any, its text, or all blocks of a result that has others. Where a user's consent is
        missing, pauses the planner. Raises a ToolNodeError."""
        app = self._connected()
        principal = await self._principal(ctx)
        options = CallOptions(principal=principal, raise_tool_errors=True)
        try:
            result = await app.call(self._catalog_name(tool_name), args, options)
        except SpindleError as error:
            if error.status == 401 and self.config.auth_type is AuthType.OAUTH2_USER and self.auth_manager:
                # The next call asks for consent instead of showing the same token for ever.
                await self.auth_manager.forget(principal.id, self.config.name)
            raise self._adapted(error) from error
        return await self._transformed(tool_name, output_of(result), ctx)

    async def close(self) -> None:
        """Ends the connection, and the server if it is a program."""
        async with self._connecting:
            opening, self._opening, self._app = self._opening, None, None
            if opening is not None:
                await opening.__aexit__(None, None, None)

    # --- tools

    async def _discovered(self, app: Spindle, principal: Principal) -> list[Tool]:
        name = self.config.name
        missing = sorted({item.variable for item in app.catalog.sources.missing_variables(name)})
        if missing:
            listed = ", ".join(missing)
            raise ToolAuthError(f"{name} needs environment variables that are not set, or empty: {listed}")
        try:
            (report,) = await app.sync(name, principal=principal)
            if report.error is not None:
                raise from_description(report.error)
        except SpindleError as error:
            raise self._adapted(error) from error
        return await app.catalog.whole_tools(ToolFilter(source=name))

    def _offer(self, tools: list[Tool]) -> None:
        names: dict[str, str] = {}
        specs: list[NodeSpec] = []
        for local, tool in self._local_names(tools).items():
            if self._admits(local):
                name = f"{self.config.name}.{local}"
                names[name] = tool.name
                specs.append(node_spec(name, tool, self.config.transport.value, self._function(name)))
        for spec in specs:
            if spec.name not in self._registered:
                try:
                    self.registry.register(spec.name, spec.args_model, spec.out_model)
                except ValueError as error:
                    raise ToolNodeError(
                        f"{spec.name!r} is taken, by a tool of the program's own or another ToolNode"
                    ) from error
                self._registered.add(spec.name)
        self._names, self._specs = names, specs

    def _local_names(self, tools: list[Tool]) -> dict[str, Tool]:
        """The tools by the names that follow the source's. The name of a manual, which may stand before a
        tool's, is no part of it, unless two tools would then have one name."""
        whole = {tool.local_name: tool for tool in tools}
        if self.config.transport is TransportType.MCP:
            return whole
        last = Counter(name.rpartition(".")[2] for name in whole)
        return {
            short if last[short := name.rpartition(".")[2]] == 1 else name: tool
            for name, tool in whole.items()
        }

    def _admits(self, name: str) -> bool:
        patterns = self.config.tool_filter
        return not patterns or any(re.match(pattern, name) for pattern in patterns)

    def _function(self, name: str) -> Any:
        async def call(args: BaseModel, ctx: ToolContext) -> dict[str, Any]:
            return {"result": await self.call(name, arguments_of(args), ctx)}

        return call

    def _catalog_name(self, name: str) -> str:
        found = self._names.get(name) or self._names.get(f"{self.config.name}.{name}")
        if found is None:
            hint = did_you_mean(name, self._names)
            raise NotFoundError(f"{self.config.name} has no tool {name!r}", hint=hint, tool=name)
        return found

    def _connected(self) -> Spindle:
        if self._app is None:
            raise ToolNodeError(f"ToolNode {self.config.name!r} is not connected: await connect() first")
        return self._app

    def _adapted(self, error: SpindleError) -> ToolNodeError:
        return adapt_exception(error, self.config.transport.value)

    async def _transformed(self, tool_name: str, output: Any, ctx: ToolContext) -> Any:
        if self.config.output_transformer is None:
            return output
        changed = self.config.output_transformer(tool_name, output, ctx)
        return await changed if inspect.isawaitable(changed) else changed

    # --- users

    async def _principal(self, ctx: ToolContext) -> Principal:
        """The user of a call, who has given consent where the source wants it."""
        given: Mapping[str, Any] = ctx.tool_context or {}
        user_id = given.get("user_id")
        if self.config.auth_type is not AuthType.OAUTH2_USER:
            return Principal(str(user_id)) if user_id else LOCAL
        manager, name = self.auth_manager, self.config.name
        if manager is None:
            raise ToolAuthError(f"{name} needs the consent of users, but its ToolNode has no auth_manager")
        if not user_id:
            raise ToolAuthError(f"{name} needs the consent of a user: tool_context has no `user_id`")
        if await manager.get_token(str(user_id), name) is None:
            asked = manager.get_auth_request(name, str(user_id), str(given.get("trace_id", "")))
            await ctx.pause(PAUSE_REASON, {"pause_type": "oauth", "provider": name, **asked})
            if await manager.get_token(str(user_id), name) is None:
                raise ToolAuthError(f"the consent of {user_id} for {name} was not completed")
        return Principal(str(user_id))

    async def _credential(self, source: str, principal: Principal) -> Credential | None:
        if self.config.auth_type is not AuthType.OAUTH2_USER or principal == NOBODY or not self.auth_manager:
            return None
        token = await self.auth_manager.get_token(principal.id, source)
        if token is None:
            return None
        variable = variable_of(self.config)
        return Credential(env=((variable, token),), token=token) if variable else bearer(token)
