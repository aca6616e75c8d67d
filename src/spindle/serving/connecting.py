"""Tools by which clients connect themselves to sources that wait for their consent.

A source that lists its tools only to users who gave their consent would be missing from everybody else's list
without a word. Instead a tool stands for it, `connect_SOURCE`, for as long as it waits for this one user.
Calling it asks for the consent; then the source's own tools take its place.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final

from spindle.domain.bounded import BoundedMap
from spindle.domain.names import free_name
from spindle.domain.tool import Hints, Tool, ToolSpec

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.domain.identity import Principal
    from spindle.serving.access import ServingAccess

KIND: Final = "spindle connect"
"""The kind of these tools, which no source has."""
PREFIX: Final = "connect_"
LIST_TIMEOUT: Final = 20.0
"""Seconds that a list waits, at most, for a source to list its tools after a consent."""


class ConnectTools:
    """The tools of one server by which its clients give their consent."""

    def __init__(self, app: Spindle, access: ServingAccess) -> None:
        self._app = app
        self._access = access
        self._shown: BoundedMap[Principal, frozenset[str]] = BoundedMap()
        """By principal, the sources that were listed as waiting for them."""

    async def waiting(self, principal: Principal) -> frozenset[str]:
        """Returns the sources whose tools are not listed for this principal, until they give a consent."""
        return frozenset(await self._app.catalog.consents.waiting(principal))

    async def tools(
        self, principal: Principal, taken: Callable[[], Awaitable[Collection[str]]]
    ) -> Mapping[str, Tool]:
        """Returns the tools for a principal's list, by name, after a look for consents that were given since
        the last one. `taken` gives the names of all other tools, if they are needed."""
        offered = self._offered(principal)
        if not offered:
            return {}
        await self.make_ready(offered, principal)
        waiting = await self.waiting(principal)
        shown = [source for source in offered if source in waiting]
        if not shown:
            self._shown.pop(principal, None)
            return {}
        self._shown[principal] = frozenset(shown)
        names = await taken()
        return {tool.name: tool for tool in (self._tool(source, names) for source in shown)}

    async def find(
        self, principal: Principal, name: str, taken: Callable[[], Awaitable[Collection[str]]]
    ) -> Tool | None:
        """Returns the tool of this name, also once its source waits no more: a client may come back to it.
        None if another tool has the name."""
        offered = self._offered(principal) if name.startswith(PREFIX) else ()
        if not offered or name in (names := await taken()):
            return None
        tools = (self._tool(source, names) for source in offered)
        return next((tool for tool in tools if tool.name == name), None)

    async def connected(self, listening: Collection[Principal]) -> Mapping[Principal, frozenset[str]]:
        """Returns the sources to which these principals have given a consent since they were last listed as
        waiting for it, here or in another process. Each is returned once."""
        found: dict[Principal, frozenset[str]] = {}
        for principal in [who for who in self._shown if who in listening]:
            waiting = await self.waiting(principal)
            shown = self._shown.pop(principal, frozenset())
            if shown & waiting:
                self._shown[principal] = shown & waiting
            if shown - waiting:
                found[principal] = shown - waiting
        return found

    async def make_ready(self, sources: Collection[str], principal: Principal) -> None:
        """Lists the tools of those of these sources that the principal has connected to, within a time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LIST_TIMEOUT):
                await self._app.catalog.make_ready([*sources], principal, may_interrupt=False)

    def _offered(self, principal: Principal) -> list[str]:
        """The sources that want consents and of which this principal may see tools."""
        asking = self._app.catalog.consents.asked_for()
        return [source for source in asking if self._access.connects(principal, source, PREFIX + source)]

    def _tool(self, source: str, taken: Collection[str]) -> Tool:
        name = free_name(PREFIX + source, taken)
        about = self._app.catalog.sources.table(source).get("description")
        description = (
            f"The tools of {source} are listed once the user has given it their consent. Call this to get the"
            " link at which they do, and again when they have."
        )
        spec = ToolSpec(
            name,
            f"{description}\n\n{source}: {about}" if about else description,
            {"type": "object", "properties": {}},
            title=f"Connect {source}",
            hints=Hints(read_only=False, destructive=False, idempotent=True),
        )
        return Tool(name, source, KIND, spec, spec.fingerprint)
