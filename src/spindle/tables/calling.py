"""Calls tools by their rows alone: `open_rows`. Only the rows are read, and for flows the workspace that
they run in, since a flow calls its tools."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spindle.calls.caller import DEFAULT_OPTIONS, CallOptions
from spindle.domain.call import Result
from spindle.domain.identity import LOCAL, Credential, Principal
from spindle.domain.json_schema import JsonObject, from_json, to_json
from spindle.errors import (
    InvalidArgumentsError,
    NotFoundError,
    SpindleError,
    ToolError,
    from_description,
    suggest,
)
from spindle.opening import open as open_workspace
from spindle.ports.store import ToolFilter
from spindle.settings import Settings
from spindle.tables.columns import Tools, rows_in
from spindle.tables.data import DataTables
from spindle.tables.ports import input_ports
from spindle.tables.row_places import (
    FLOWS,
    WORKFLOWS,
    Home,
    RowPermissions,
    RowRefused,
    RowSource,
    RunWorkflow,
    key_of,
    place_of,
    without_places,
)
from spindle.tables.rows import Note
from spindle.tables.rows_source import RowsSource
from spindle.tables.tool_row import ToolRow
from spindle.threads import in_thread

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.calls.permissions import Visible
    from spindle.catalog.catalog import Catalog
    from spindle.domain.tool import Tool
    from spindle.runs.outcomes import Outcome
    from spindle.runs.runner import Runner

logger = logging.getLogger("spindle")

SOURCE = "rows"
MAX_NAMED = 10
"""Rows that are left out for the same reason and named. Of more, only their number is said."""


@dataclass(frozen=True, slots=True)
class LeftOutRow:
    """A row that cannot be called here, and why."""

    row: ToolRow
    error: SpindleError


class OpenRows:
    """Open rows, made by `open_rows`: each can be called. It is also a catalog of these rows, which adapters
    of other libraries take like a workspace."""

    def __init__(
        self,
        app: Spindle,
        places: Mapping[bytes, RowSource],
        apps: Mapping[Home, Spindle],
        left_out: Sequence[LeftOutRow],
        run_workflow: RunWorkflow | None,
        note: Note,
    ) -> None:
        self._app = app
        self._places = places
        self._apps = apps
        self._run_workflow = run_workflow
        self._note = note
        self.left_out = tuple(left_out)
        """The rows that cannot be called here."""

    @property
    def catalog(self) -> Catalog:
        """The rows as tools, under unique names."""
        return self._app.catalog

    @property
    def visible(self) -> Visible:
        """Says who sees which tool: all see all."""
        return self._app.visible

    async def run(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        options: CallOptions = DEFAULT_OPTIONS,
        /,
    ) -> Outcome:
        """Calls a tool of the catalog by its name."""
        return await self._app.run(tool, arguments, options)

    @property
    def runner(self) -> Runner:
        """Continues calls that wait for a person."""
        return self._app.runner

    async def call(
        self, row: ToolRow, arguments: Mapping[str, Any] | None = None, options: CallOptions = DEFAULT_OPTIONS
    ) -> Result:
        """Calls the row's tool on the server that it names, or runs its flow, with the same guards as any
        call."""
        place = self._places.get(key_of(row))
        if place is None:
            for left in self.left_out:
                if left.row == row:
                    raise left.error
            raise NotFoundError(f"{row.name!r} is not among the rows that were opened", tool=row.name)
        if place.kind == WORKFLOWS:
            return await self._call_workflow(row, dict(arguments or {}))
        app = self._apps[place.home]
        try:
            tool = await self._find(app, place, row)
            return await app.call(tool.name, dict(arguments or {}), options)
        except SpindleError as error:
            error.message = without_places(error.message, place)
            error.tool = row.name
            raise

    async def run_workflow(
        self, row: ToolRow, configuration: JsonObject, inputs: list[pa.Table]
    ) -> tuple[str, dict[str, pa.Table]]:
        """Runs a workflow of other software, and returns its message and its tables by their ports."""
        run = self._run_workflow
        assert run is not None, "its place says that it is run by its software"
        try:
            message, tables = await in_thread(lambda: run(row, configuration, inputs), f"workflow {row.name}")
        except SpindleError:
            raise
        except Exception as error:  # of the software that runs it, which is not ours
            raise ToolError(f"{row.name} failed: {error}", tool=row.name) from error
        ports = [port.name for port in row.output_ports]
        if len(tables) == len(ports) - 1 and row.message_output_port is not None:
            del ports[row.message_output_port]
        names = [*ports, *(f"output_{number}" for number in range(len(ports), len(tables)))]
        return message, dict(zip(names, tables, strict=False))

    def is_workflow(self, row: ToolRow) -> bool:
        """True if the software that the workflow is of runs it, with tables as they are."""
        place = self._places.get(key_of(row))
        return place is not None and place.kind == WORKFLOWS

    async def _call_workflow(self, row: ToolRow, arguments: JsonObject) -> Result:
        missing = [name for name in input_ports(row) if not isinstance(arguments.get(name), pa.Table)]
        if missing:
            raise InvalidArgumentsError(f"{row.name} needs a table for {', '.join(missing)}", tool=row.name)
        inputs = [arguments.pop(name) for name in input_ports(row)]
        message, tables = await self.run_workflow(row, arguments, inputs)
        if not tables:
            return Result.of_text(message)
        rows = {name: table.to_pylist() for name, table in tables.items()}
        plain = from_json(to_json(rows, default=str))  # dates and decimals as text
        return Result.of_value({"message": message, "tables": plain})

    async def _find(self, app: Spindle, place: RowSource, row: ToolRow) -> Tool:
        if place.tools is None:
            place.tools = await (_flows_of(app) if place.kind == FLOWS else _tools_of(app, place.name))
        tool = place.tools.get(row.remote_name)
        if tool is None:
            meant = suggest(row.remote_name, place.tools)
            gone = "make the table again: the server has changed"
            what = f"the source of {row.name!r} has no tool {row.remote_name!r}"
            if place.kind == FLOWS:
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
    names = [name for name in sources.names if sources.kind(name) == FLOWS]
    await app.catalog.make_ready(names, LOCAL, may_interrupt=False)
    found = await app.catalog.whole_tools(ToolFilter(kind=FLOWS))
    return {tool.spec.remote_name: tool for tool in found}


@contextlib.asynccontextmanager
async def open_rows(
    rows: Tools,
    *,
    column: str | None = None,
    trusted: bool = False,
    credentials: Mapping[str, Credential] | None = None,
    workspace: Path | str | Spindle | None = None,
    run_workflow: RunWorkflow | None = None,
    data: Mapping[str, Any] | None = None,
    destructive: bool = False,
    note: Note = logger.warning,
) -> AsyncGenerator[OpenRows]:
    """Makes the rows of a table, a column or a list callable. A server is contacted only when one of its
    tools is first called.

    A row may name a program to start, files to read and variables to send to a server, all chosen by the
    author of the table. Such rows are left out unless the table is `trusted`, and so are those that cannot be
    called here for another reason: `note` and `left_out` say which. Raises if all of them are. `credentials`
    holds, by name, the ones that rows ask for.

    Flows run in the `workspace`: a folder, or one that is already open. Naming it allows its flows. Without
    it they need trust too, and run in the workspace that their row names if it exists here, otherwise in the
    current one. `run_workflow` runs workflows of other software.

    Adapters take what this gives in place of a workspace. For them, `data` are tables by their ids, and
    `destructive` allows calls of tools that declare themselves destructive.
    """
    reach = RowPermissions(trusted, credentials or {}, workspace, run_workflow)
    tables = DataTables(data or {})
    async with (
        open_workspace(settings=settings_of_rows(), note=note) as app,
        rows_in_app(app, rows_in(rows, column), reach, tables, destructive=destructive, note=note) as opened,
    ):
        yield opened


def settings_of_rows() -> Settings:
    """The settings of the temporary workspace that holds only rows."""
    return Settings(Path.cwd(), {"sources": {}, "store": ":memory:"}, is_workspace=False)


@contextlib.asynccontextmanager
async def rows_in_app(
    app: Spindle,
    rows: Sequence[ToolRow | None],
    reach: RowPermissions,
    data: DataTables,
    *,
    destructive: bool,
    note: Note,
) -> AsyncGenerator[OpenRows]:
    """Opens rows as the source of an empty workspace."""
    places, left_out = _places(rows, reach)
    _tell(left_out, note)
    own = {place.name: place.credential for place in places.values()}

    async def credential(source: str, _principal: Principal) -> Credential | None:
        return own[source]

    async with contextlib.AsyncExitStack() as stack:
        apps: dict[Home, Spindle] = {}
        workspace = reach.workspace
        for home in {place.home for place in places.values() if place.kind != WORKFLOWS}:
            kind, root = home
            if kind == FLOWS:
                apps[home] = (
                    await stack.enter_async_context(open_workspace(root, note=note))
                    if workspace is None or isinstance(workspace, str | Path)
                    else workspace
                )
                continue
            assert root is not None
            sources = {place.name: place.table for place in places.values() if place.home == home}
            settings = Settings(root, {"sources": sources, "store": ":memory:"}, is_workspace=False)
            opening = open_workspace(settings=settings, credentials=credential, note=note)
            apps[home] = await stack.enter_async_context(opening)
        opened = OpenRows(app, places, apps, left_out, reach.run_workflow, note)
        callable_rows = [row for row in rows if row is not None and key_of(row) in places]
        offered = RowsSource.of_rows(callable_rows, opened, data, destructive=destructive)
        app.catalog.sources.add(SOURCE, *offered)
        yield opened


def _places(
    rows: Sequence[ToolRow | None], reach: RowPermissions
) -> tuple[dict[bytes, RowSource], list[LeftOutRow]]:
    """The sources of the rows, and the rows that have none here. Raises if no row has one."""
    places: dict[bytes, RowSource] = {}
    names: dict[str, RowSource] = {}
    refused: dict[bytes, RowRefused] = {}
    left_out: list[LeftOutRow] = []
    for row in rows:
        if row is None or (key := key_of(row)) in places:
            continue
        try:
            if key in refused:
                raise refused[key]
            place = place_of(row, reach, names)
            places[key] = names[place.name] = place
        except RowRefused as why:
            refused[key] = why
            left_out.append(LeftOutRow(row, why.of(row)))
    if left_out and not places:
        raise left_out[0].error
    return places, left_out


def named(rows: Sequence[LeftOutRow]) -> str:
    """The names of rows that are left out, as far as there is room."""
    shown = ", ".join(repr(left.row.name)[1:-1][:100] for left in rows[:MAX_NAMED])
    return shown + (f" and {len(rows) - MAX_NAMED:,} more" if len(rows) > MAX_NAMED else "")


def _tell(left_out: Sequence[LeftOutRow], note: Note) -> None:
    groups: dict[str, list[LeftOutRow]] = {}
    for left in left_out:
        groups.setdefault(left.error.message.removeprefix(left.row.name), []).append(left)
    for reason, rows in groups.items():
        what = "is left out: it" if len(rows) == 1 else "are left out: each"
        note(f"{named(rows)} {what}{reason} ({rows[0].error.hint})")
