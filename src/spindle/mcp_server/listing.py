"""The catalog's tools as they are listed: under their served names, in pages, as one principal sees them."""

from __future__ import annotations

import asyncio
import base64
import binascii
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spindle.domain.json_schema import JsonObject
from spindle.domain.names import NameStyle, served_names
from spindle.domain.tool import SHOWN, Tool, ToolSummary
from spindle.mcp_protocol.headers import is_repeated
from spindle.mcp_server.convert import to_wire_tool
from spindle.ports.store import ToolFilter

if TYPE_CHECKING:
    from spindle.catalog.catalog import Catalog
    from spindle.domain.identity import Principal
    from spindle.serving.access import ServingAccess
    from spindle.serving.connecting import ConnectTools


class BadCursorError(ValueError):
    """A cursor that we did not make."""


@dataclass(slots=True)
class _Snapshot:
    """The tools at one version of the catalog. Their definitions are read when they are listed."""

    version: int
    style: NameStyle
    summaries: Mapping[str, ToolSummary]
    """By full name, without those that wait to be accepted."""
    served: Mapping[str, str]
    full: Mapping[str, str]
    wire: Mapping[str, JsonObject] | None = field(default=None)
    """By full name, as the protocol writes them."""

    header_schemas: dict[str, JsonObject | None] = field(default_factory=dict[str, "JsonObject | None"])
    """By full name, the schema of a tool of whose arguments some are to be repeated as headers."""

    task_supports: dict[str, str] = field(default_factory=dict[str, str])
    """By full name, what tools say of tasks that have been looked at; most say nothing."""

    def find(self, name: str) -> ToolSummary | None:
        return self.summaries.get(self.full.get(name, name))


class Listing:
    """Lists tools under their served names, page by page, as one principal sees them."""

    def __init__(
        self,
        catalog: Catalog,
        access: ServingAccess,
        style: Callable[[], NameStyle],
        connect: ConnectTools,
        reserved: Collection[str],
    ) -> None:
        """`reserved` are the names of tools of the server's own."""
        self._catalog = catalog
        self._reserved = reserved
        self._access = access
        self._connect = connect
        self._style = style
        self._snapshot: _Snapshot | None = None
        self._making = asyncio.Lock()

    async def visible(self, principal: Principal) -> list[ToolSummary]:
        snapshot = await self._newest()
        sees = await self.sees(principal)
        return [item for item in snapshot.summaries.values() if sees(item)]

    async def sees(self, principal: Principal) -> Callable[[ToolSummary], bool]:
        """Says of each tool if it is listed for this principal."""
        waiting = await self._connect.waiting(principal)
        return lambda item: item.source not in waiting and self._access.visible(principal, item)

    async def connect_tools(self, principal: Principal) -> Mapping[str, Tool]:
        """The tools by which the principal gives consents that are missing, by name."""
        return await self._connect.tools(principal, self._taken)

    async def connect_tool(self, principal: Principal, name: str) -> ToolSummary | None:
        """The one of them that has this name."""
        found = await self._connect.find(principal, name, self._taken)
        if found is None:
            return None
        return ToolSummary(found.name, found.source, found.kind, found.spec.title or "")

    async def _taken(self) -> Collection[str]:
        """The names that other tools have."""
        snapshot = await self._current()
        return {*snapshot.full, *snapshot.summaries, *self._reserved}

    async def page(
        self, principal: Principal, cursor: str | None, size: int
    ) -> tuple[list[JsonObject], str | None]:
        """The tools that come after the cursor, and the cursor of the next page. A cursor names the last
        tool of its page, so that tools that come and go meanwhile neither repeat nor hide others."""
        names = sorted(item.name for item in await self.visible(principal))
        snapshot = await self._current()
        start = 0 if cursor is None else bisect_right(names, read_cursor(cursor))
        chosen = names[start : start + size]
        wire = await self._definitions(snapshot)
        found = [wire[name] for name in chosen if name in wire]
        more = start + size < len(names)
        return found, make_cursor(chosen[-1]) if more and chosen else None

    def made_at_hand(self) -> _Snapshot | None:
        """The tools as they are listed, if that is known without reading anything; the same object while
        nothing has changed but perhaps their style."""
        snapshot = self._snapshot
        if snapshot is None or not self._catalog.stored_version.is_still(snapshot.version):
            return None
        return snapshot

    def at_hand(self, principal: Principal, name: str) -> ToolSummary | None:
        """The same as `resolve`, as far as it is known without reading anything."""
        snapshot = self.made_at_hand()
        if snapshot is None or snapshot.style != self._style():
            return None
        found = snapshot.find(name)
        return found if found is not None and self._access.shows(principal, found.name) else None

    async def resolve(self, principal: Principal, name: str) -> ToolSummary | None:
        """The tool that is served under this name, or has it in the catalog; None where the principal
        sees none."""
        found = (await self._current()).find(name) or (await self._newest()).find(name)
        if found is None or not self._access.visible(principal, found):
            return None
        return found

    async def known_names(self, principal: Principal) -> list[str]:
        return [await self.served_name(item.name) for item in await self.visible(principal)]

    async def served_name(self, full: str) -> str:
        return (await self._current()).served.get(full, full)

    async def wire(self, full: str) -> JsonObject | None:
        snapshot = await self._current()
        if snapshot.wire is not None:
            return snapshot.wire.get(full)
        return to_wire_tool(await self._catalog.find(full), snapshot.served.get(full, full))

    async def header_schema(self, principal: Principal, name: str) -> JsonObject | None:
        """The schema of this tool's arguments where a client of 2026-07-28 repeats some as headers."""
        tool = await self.resolve(principal, name)
        if tool is None:
            return None
        known = (await self._current()).header_schemas
        if tool.name not in known:
            schema = (await self._catalog.find(tool.name)).input_schema
            known[tool.name] = schema if is_repeated(schema) else None
        return known[tool.name]

    def source_of(self, full: str) -> str | None:
        """The source of a tool, if it is still in the catalog."""
        found = self._snapshot.summaries.get(full) if self._snapshot is not None else None
        return found.source if found is not None else None

    def says_nothing_of_tasks(self, full: str) -> bool:
        """True for a tool that is known to leave it to the server if a call of it is a task."""
        return self._snapshot is not None and self._snapshot.task_supports.get(full) == ""

    async def task_support(self, full: str) -> str:
        """Returns what a tool says of tasks, in MCP's words: `optional`, `required` or `forbidden`; else
        empty."""
        known = (await self._current()).task_supports
        if full not in known:
            shown: JsonObject = (await self._catalog.find(full)).spec.metadata.get(SHOWN) or {}
            execution: JsonObject = shown.get("execution") or {}
            known[full] = execution.get("taskSupport") or ""
        return known[full]

    async def _newest(self) -> _Snapshot:
        """The current tools, including recent edits in the workspace's own folders."""
        await self._catalog.look_again()
        return await self._current()

    async def _current(self) -> _Snapshot:
        if (snapshot := await self._made()) is not None:
            return snapshot
        # One makes it for all who find that the tools have changed.
        async with self._making:
            if (snapshot := await self._made()) is not None:
                return snapshot
            version, style = await self._catalog.stored_version.number(), self._style()
            summaries = {item.name: item for item in await self._catalog.tools(ToolFilter())}
            served = served_names(summaries, style)
            full = {short: name for name, short in served.items()}
            snapshot = self._snapshot = _Snapshot(version, style, summaries, served, full)
            return snapshot

    async def _made(self) -> _Snapshot | None:
        """The snapshot that is there, unless the tools or their names have changed since."""
        snapshot = self._snapshot
        version, style = await self._catalog.stored_version.number(), self._style()
        if snapshot is None or snapshot.version != version or snapshot.style != style:
            return None
        return snapshot

    async def _definitions(self, snapshot: _Snapshot) -> Mapping[str, JsonObject]:
        if snapshot.wire is None:
            tools: list[Tool] = await self._catalog.whole_tools(ToolFilter())
            snapshot.wire = {
                tool.name: to_wire_tool(tool, snapshot.served[tool.name])
                for tool in tools
                if tool.name in snapshot.served
            }
        return snapshot.wire


def make_cursor(name: str) -> str:
    """The cursor for the page after this name."""
    return base64.urlsafe_b64encode(name.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def read_cursor(cursor: str) -> str:
    """The name in a cursor; raises BadCursorError if it is not one of ours."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        return base64.b64decode(padded, altchars=b"-_", validate=True).decode("utf-8", "surrogatepass")
    except (binascii.Error, UnicodeError, ValueError):
        raise BadCursorError(cursor) from None
