"""Calls tools by their rows alone: `open_rows`. Only the rows are read, and for flows the workspace that
they run in, since a flow calls its tools."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.calls.caller import DEFAULT_OPTIONS, CallOptions
from spindle.domain.identity import LOCAL, Credential, Principal
from spindle.domain.json_schema import JsonObject, canonical
from spindle.errors import (
    AuthError,
    ConfigurationError,
    NotFoundError,
    PermissionDeniedError,
    from_description,
    suggest,
)
from spindle.opening import open as open_workspace
from spindle.ports.store import ToolFilter
from spindle.settings import FILE_NAME, Settings
from spindle.tables.rows import GIVEN, Note
from spindle.tables.tool_row import ToolKind, ToolRow

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.domain.call import Result
    from spindle.domain.tool import Tool

logger = logging.getLogger("spindle")

# The settings that need no trust: those that say where a server is. Any other could start a program,
# read a file or send a variable to a stranger.
_REMOTE_KINDS = frozenset({"mcp", "openapi", "http", "utcp", "websocket"})
_HARMLESS = frozenset({
    "url", "document", "base_url", "prefix", "description", "transport", "protocol", "timeout",
    "connect_timeout", "requests", "include", "exclude",
})  # fmt: skip


_FLOWS = "flows"

Home = tuple[str, Path | None]
"""The opened workspace that a source is in."""


@dataclass
class _RowSource:
    """A source that rows have in common."""

    name: str
    kind: str
    home: Home
    settings: JsonObject
    credential: Credential | None
    tools: dict[str, Tool] | None = field(default=None)


class OpenRows:
    """Open rows, made by `open_rows`: each can be called."""

    def __init__(self, places: Mapping[bytes, _RowSource], apps: Mapping[Home, Spindle], note: Note) -> None:
        self._places = places
        self._apps = apps
        self._note = note

    async def call(
        self, row: ToolRow, arguments: Mapping[str, Any] | None = None, options: CallOptions = DEFAULT_OPTIONS
    ) -> Result:
        """Calls the row's tool on the server that it names, or runs its flow, with the same guards as any
        call."""
        place = self._places.get(_key(row))
        if place is None:
            raise NotFoundError(f"{row.name!r} is not among the rows that were opened", tool=row.name)
        app = self._apps[place.home]
        tool = await self._find(app, place, row)
        return await app.call(tool.name, dict(arguments or {}), options)

    async def _find(self, app: Spindle, place: _RowSource, row: ToolRow) -> Tool:
        if place.tools is None:
            place.tools = await (_flows_of(app) if place.kind == _FLOWS else _tools_of(app, place.name))
        tool = place.tools.get(row.remote_name)
        if tool is None:
            meant = suggest(row.remote_name, place.tools)
            gone = "make the table again: the server has changed"
            what = f"the source of {row.name!r} has no tool {row.remote_name!r}"
            if place.kind == _FLOWS:
                gone = "say in which workspace it is: workspace=…"
                what = f"the workspace {app.settings.root} has no flow {row.remote_name!r}"
            raise NotFoundError(what, hint=f"it has {meant!r}" if meant else gone, tool=row.name)
        written = (row.input or {}).get("fingerprint")
        if written is not None and written != tool.fingerprint:
            self._note(f"{row.name}: its definition changed since the table was made")
        return tool


async def _tools_of(app: Spindle, source: str) -> dict[str, Tool]:
    (report,) = await app.sync(source)
    if report.error is not None:
        raise from_description(report.error)
    found = await app.catalog.whole_tools(ToolFilter(source=source))
    return {tool.spec.remote_name: tool for tool in found}


async def _flows_of(app: Spindle) -> dict[str, Tool]:
    sources = app.catalog.sources
    names = [name for name in sources.names if sources.kind(name) == _FLOWS]
    await app.catalog.make_ready(names, LOCAL, may_interrupt=False)
    found = await app.catalog.whole_tools(ToolFilter(kind=_FLOWS))
    return {tool.spec.remote_name: tool for tool in found}


@contextlib.asynccontextmanager
async def open_rows(
    rows: Sequence[ToolRow | None],
    *,
    trusted: bool = False,
    credentials: Mapping[str, Credential] | None = None,
    workspace: Path | str | Spindle | None = None,
    note: Note = logger.warning,
) -> AsyncGenerator[OpenRows]:
    """Makes rows callable. A server is contacted only when one of its tools is first called.

    A row may name a program to start, files to read and variables to send to a server, all chosen by the
    author of the table. Such rows are refused unless the table is `trusted`. `credentials` holds, by name,
    the ones that rows ask for.

    Flows run in the `workspace`: a folder, or one that is already open. Naming it allows its flows. Without
    it they need trust too, and run in the workspace that their row names if it exists here, otherwise in the
    current one.
    """
    places: dict[bytes, _RowSource] = {}
    for row in rows:
        if row is not None and _key(row) not in places:
            places[_key(row)] = _place(
                row, f"s{len(places) + 1}", credentials or {}, workspace, trusted=trusted
            )
    own = {place.name: place.credential for place in places.values()}

    async def credential(source: str, _principal: Principal) -> Credential | None:
        return own[source]

    async with contextlib.AsyncExitStack() as stack:
        apps: dict[Home, Spindle] = {}
        for home in {place.home for place in places.values()}:
            kind, root = home
            if kind == _FLOWS:
                apps[home] = (
                    await stack.enter_async_context(open_workspace(root, note=note))
                    if workspace is None or isinstance(workspace, str | Path)
                    else workspace
                )
                continue
            assert root is not None
            sources = {
                place.name: {"kind": place.kind, **place.settings}
                for place in places.values()
                if place.home == home
            }
            settings = Settings(root, {"sources": sources, "store": ":memory:"}, is_workspace=False)
            opening = open_workspace(settings=settings, credentials=credential, note=note)
            apps[home] = await stack.enter_async_context(opening)
        yield OpenRows(places, apps, note)


def _key(row: ToolRow) -> bytes:
    return canonical([int(row.kind), row.source, row.credential, row.server_uri])


def _place(
    row: ToolRow,
    name: str,
    credentials: Mapping[str, Credential],
    workspace: Path | str | Spindle | None,
    *,
    trusted: bool,
) -> _RowSource:
    source = row.source
    if row.kind is ToolKind.WORKFLOW and (
        workspace is not None if source is None else source["kind"] == _FLOWS
    ):
        return _RowSource(name, _FLOWS, (_FLOWS, _home_of_flow(row, workspace, trusted=trusted)), {}, None)
    source = source or _source_of_address(row)
    kind, settings = str(source["kind"]), dict(source["settings"])
    settings.pop("prefix", None)
    if not trusted:
        _require_harmless(row, kind, settings)
    shown: Credential | None = None
    wanted = row.credential
    if wanted is not None and wanted.get("type") == GIVEN:
        shown = credentials.get(str(wanted.get("name")))
        if shown is None or not shown.key:
            raise AuthError(
                f"{row.name} wants the credential {wanted.get('name')!r} to be given",
                hint=f"credentials={{{wanted.get('name')!r}: …}}",
                tool=row.name,
            )
    elif wanted is not None:
        settings["auth"] = wanted
    return _RowSource(name, kind, ("rows", Path(source.get("root") or Path.cwd())), settings, shown)


def _home_of_flow(row: ToolRow, workspace: Path | str | Spindle | None, *, trusted: bool) -> Path | None:
    """The folder of the workspace, or None for the current one or the one that is already open."""
    if workspace is not None:
        return Path(workspace) if isinstance(workspace, str | Path) else None
    if not trusted:
        raise PermissionDeniedError(
            f"{row.name} runs a flow on this machine, and the table is not trusted",
            hint="name the workspace whose flows it may run: workspace=…, or pass trusted=True if you know "
            "who made it",
            tool=row.name,
        )
    written = Path((row.source or {}).get("root") or ".")
    return written if (written / FILE_NAME).is_file() or (written / _FLOWS).is_dir() else None


def _source_of_address(row: ToolRow) -> JsonObject:
    if row.kind is ToolKind.MCP and row.server_uri:
        return {"kind": "mcp", "settings": {"url": row.server_uri}}
    what = (
        "is a workflow of other software"
        if row.kind is ToolKind.WORKFLOW
        else "does not say where it comes from"
    )
    raise ConfigurationError(
        f"{row.name} cannot be called: it {what}", hint="make the table with Spindle", tool=row.name
    )


def _require_harmless(row: ToolRow, kind: str, settings: JsonObject) -> None:
    document = settings.get("document")
    local = isinstance(document, str) and not document.startswith(("http://", "https://"))
    variables = b"${" in canonical([settings, row.credential])
    if kind in _REMOTE_KINDS and settings.keys() <= _HARMLESS and not local and not variables:
        return
    what = (
        "shows variables of yours to a server"
        if variables
        else "reads a file"
        if local
        else f"starts {settings['command']!r}"
        if "command" in settings
        else f"uses more of this machine than the network (kind {kind!r})"
    )
    raise PermissionDeniedError(
        f"{row.name} {what}, and the table is not trusted", hint="pass trusted=True if you know who made it",
        tool=row.name,
    )  # fmt: skip
