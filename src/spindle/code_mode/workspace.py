"""Programs in an open workspace: as runs of their own, for clients that have a model. Light: what executes
them is imported with the first one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

from spindle.ports.store import ToolFilter

if TYPE_CHECKING:
    from spindle.calls.host import CallHost
    from spindle.calls.options import CallOptions
    from spindle.calls.permissions import Visible
    from spindle.catalog.catalog import Catalog
    from spindle.code_mode.library import ToolLibrary
    from spindle.code_mode.sandbox import Sandbox
    from spindle.domain.call import Result
    from spindle.domain.identity import Principal
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.tool import Tool

KIND: Final = "code"
"""The kind of runs that are programs."""
Gate = Callable[["Principal", str, Any, Callable[[], Awaitable[Any]]], Awaitable[Any]]


class WorkspaceCode:
    """The programs of a workspace, and the sandbox that all of them share."""

    def __init__(self, catalog: Catalog, visible: Visible) -> None:
        self._catalog = catalog
        self._visible = visible
        self._shows: Visible | None = None
        self._gate: Gate | None = None

    def serve(self, shows: Visible, gate: Gate) -> None:
        """Has programs of clients call only tools that `shows` allows, each call through `gate`."""
        self._shows, self._gate = shows, gate

    @cached_property
    def sandbox(self) -> Sandbox:
        """The workers that execute programs."""
        from spindle.code_mode.sandbox import Sandbox

        return Sandbox()

    async def library(self, principal: Principal) -> ToolLibrary:
        """Returns the tools that this principal may call."""
        from spindle.code_mode.library import ToolLibrary

        await self._catalog.look_again()
        every = await self._catalog.tools(ToolFilter())

        def sees(name: str) -> bool:
            return self._visible(principal, name) and (self._shows is None or self._shows(principal, name))

        usable = frozenset(item.name for item in every if not item.held and sees(item.name))

        async def find(name: str) -> Tool:
            return await self._catalog.find(name, principal, sees)

        return ToolLibrary(every, usable, find)

    async def work(self, given: JsonObject, host: CallHost, options: CallOptions) -> Result:
        """Executes a program, from its start or after a pause."""
        from spindle.code_mode.limits import CodeLimits
        from spindle.code_mode.program import Program
        from spindle.code_mode.reading import shown
        from spindle.domain.call import Result

        principal = host.principal

        async def call(place: CallHost, tool: str, arguments: JsonObject, _: bool) -> Result:
            if self._gate is None:
                return await place.call(tool, arguments)
            return await self._gate(principal, tool, arguments, partial(place.call, tool, arguments))

        limits = CodeLimits(**given["limits"])
        if untried := self._catalog.untried():
            await self._catalog.make_ready(untried, principal, may_interrupt=False)
        program = Program(self.sandbox, await self.library(principal), host.branch(KIND), call, limits)
        result = await program.run(given["code"])
        return Result.of_value(result.to_dict(), shown(result))

    async def close(self) -> None:
        """Stops the sandbox."""
        if "sandbox" in self.__dict__:
            await self.sandbox.close()
