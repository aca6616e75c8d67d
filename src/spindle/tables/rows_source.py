"""Rows as the one source of a workspace, so that an agent can use them like any tools.

The rows describe the tools; a server is first contacted when one of its tools is called.
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import pyarrow as pa
from pydantic import ByteSize, Field

from spindle.calls.journal import current_journal
from spindle.calls.options import CallOptions
from spindle.domain.call import Block, Result
from spindle.domain.json_schema import JsonObject, is_array, is_object, to_json
from spindle.domain.source import BreakerConfig, RetryConfig, SourceConfig
from spindle.domain.tool import ToolSpec
from spindle.errors import (
    Interruption,
    InvalidArgumentsError,
    PermissionDeniedError,
    SpindleError,
)
from spindle.ports.source import Session, Source
from spindle.tables.data import DataTables, is_rows
from spindle.tables.ports import (
    input_ports,
    missing_columns,
    shaped,
    shown_parameters,
    table_parameters,
    table_results,
)
from spindle.tables.values import Cell, cell_of

if TYPE_CHECKING:
    from spindle.domain.call import Call
    from spindle.domain.identity import Credential
    from spindle.domain.tool import Tool
    from spindle.tables.tool_row import Port, ToolRow

logger = logging.getLogger("spindle")

DAY = 86_400.0


class RowCalls(Protocol):
    """The parts of open rows that the source needs."""

    async def call(self, row: ToolRow, arguments: Mapping[str, Any], options: CallOptions, /) -> Result: ...
    def is_workflow(self, row: ToolRow, /) -> bool: ...
    async def run_workflow(
        self, row: ToolRow, configuration: JsonObject, inputs: list[pa.Table], /
    ) -> tuple[str, dict[str, pa.Table]]: ...


class RowsConfig(SourceConfig):
    """Settings without guards, since those of the rows' own sources apply."""

    kind: Literal["rows"] = "rows"  # pyright: ignore[reportIncompatibleVariableOverride] - frozen
    prefix: bool = False  # pyright: ignore[reportIncompatibleVariableOverride] - frozen
    timeout: float = Field(default=DAY, gt=0)
    max_concurrency: int = Field(default=1000, ge=1)
    retry: RetryConfig = RetryConfig(attempts=1)
    breaker: BreakerConfig = BreakerConfig(failures=1_000_000_000)
    max_tools: int = Field(default=10_000_000, ge=1)
    max_list_size: ByteSize = Field(default=ByteSize(1 << 40), gt=0)
    check_results: bool | Literal["note"] = False


class RowsSource(Source[RowsConfig]):
    """Offers rows as tools. `destructive` allows calls of tools that declare themselves destructive."""

    _make: Callable[[Path], RowsSession] | None = None

    @classmethod
    def of_rows(
        cls, rows: Sequence[ToolRow | None], opened: RowCalls, data: DataTables, *, destructive: bool
    ) -> tuple[RowsSource, RowsConfig]:
        """The source of these rows, with its settings."""
        named, config = by_name(rows), RowsConfig()
        source = cls("rows", config, Path.cwd(), logger.warning)
        source._make = lambda folder: RowsSession(named, opened, data, folder, destructive=destructive)
        return source, config

    @staticmethod
    def config_model() -> type[RowsConfig]:
        return RowsConfig

    @contextlib.asynccontextmanager
    async def open(
        self, credential: Credential, on_change: Callable[[], None]
    ) -> AsyncGenerator[RowsSession]:
        with tempfile.TemporaryDirectory(prefix="spindle-tables-") as folder:
            assert self._make is not None, "rows are handed over, never configured"
            yield self._make(Path(folder))


class RowsSession(Session):
    """Calls the tools of rows, with tables in place of their ids."""

    def __init__(
        self,
        rows: Mapping[str, ToolRow],
        opened: RowCalls,
        data: DataTables,
        folder: Path,
        *,
        destructive: bool,
    ) -> None:
        self._rows = rows
        self._opened = opened
        self._data = data
        self._folder = folder
        self._destructive = destructive

    async def discover(self) -> list[ToolSpec]:
        return [
            ToolSpec(name, row.description, shown_parameters(row), hints=row.hints)
            for name, row in self._rows.items()
        ]

    async def invoke(self, tool: Tool, call: Call) -> Result:
        row = self._rows[tool.spec.remote_name]
        if row.hints.destructive is True and not self._destructive:
            raise PermissionDeniedError(
                f"{row.name} declares itself destructive, and such calls are not allowed", tool=row.name
            )
        if self._opened.is_workflow(row):
            return await self._run_workflow(row, call.arguments)
        arguments, given = self._with_tables(row, call.arguments)
        options = CallOptions(call.principal, on_progress=call.on_progress)
        # The calling run cannot be resumed, so nothing of this call belongs in its record.
        journal = current_journal.set(None)
        try:
            result = await self._opened.call(row, arguments, options)
        except Interruption as wanted:
            raise PermissionDeniedError(
                f"{row.name} needs a person first ({wanted.kind}), and nobody can be asked here",
                tool=row.name,
            ) from None
        except SpindleError as error:
            if not given:
                raise
            message = self._data.hidden_in(error.message, given)
            raise type(error)(message, tool=row.name, sent=error.sent) from None
        finally:
            current_journal.reset(journal)
        return self._with_references(row, result, given)

    async def _run_workflow(self, row: ToolRow, arguments: JsonObject) -> Result:
        """Runs a workflow of other software, which takes and gives tables as they are."""
        configuration, inputs, given = dict(arguments), list[pa.Table](), list[str]()
        for name, port in input_ports(row).items():
            reference = str(configuration.pop(name, ""))
            inputs.append(self._table(row, name, port, reference))
            given.append(reference)
        try:
            message, tables = await self._opened.run_workflow(row, configuration, inputs)
        except SpindleError as error:
            raise type(error)(self._data.hidden_in(error.message, given), tool=row.name) from None
        kept = [self._data.keep(name, table) for name, table in tables.items()]
        return Result.of_value({"message": message, "tables": kept}) if kept else Result.of_text(message)

    def _table(self, row: ToolRow, name: str, port: Port, reference: str) -> pa.Table:
        """The table of an id, if it has what the port needs."""
        table = self._data[reference]
        if missing := missing_columns(port, table):
            raise InvalidArgumentsError(
                f"the table {reference!r} has no column {', '.join(map(repr, missing))}, which "
                f"{row.name} needs of `{name}`",
                hint=f"it has: {', '.join(table.column_names)}",
                tool=row.name,
            )
        return table

    def _with_tables(self, row: ToolRow, arguments: JsonObject) -> tuple[JsonObject, list[str]]:
        """The arguments with tables in place of ids, and those ids."""
        ports = table_parameters(row)
        changed, given = dict(arguments), list[str]()
        for name, port in ports.items():
            if (reference := arguments.get(name)) is None:
                continue
            table = self._table(row, name, port, str(reference))
            changed[name] = shaped(table, port, self._folder)
            given.append(str(reference))
        return changed, given

    def _with_references(self, row: ToolRow, result: Result, given: Sequence[str]) -> Result:
        """The result with ids in place of tables: of marked ones, and if tables were given, of everything
        that looks like one."""
        if result.is_error:
            shown = self._data.hidden_in(result.text, given) if given else None
            return result if shown is None else Result.of_text(shown, is_error=True, meaning=result.meaning)
        if not result.has_structured:
            return result
        marked, value = table_results(row), result.structured
        plain_name = row.name.rpartition(".")[2]
        if is_object(value):
            kept: Any = {
                name: self._data.keep(name, item)
                if name in marked and item is not None
                else self._referenced(name, item, deep=bool(given))
                for name, item in value.items()
            }
        elif len(marked) == 1:
            kept = self._data.keep(next(iter(marked)), value)
        else:
            kept = self._referenced(plain_name, value, deep=bool(given))
        if kept == value:
            return result
        text = to_json(kept).decode()
        return replace(result, content=(Block("text", text=text),), structured=kept, cached=False)

    def _referenced(self, name: str, value: Any, *, deep: bool) -> Any:
        if not deep:
            return value
        if is_rows(value):
            return self._data.keep(name, value)
        if is_object(value):
            return {key: self._referenced(key, item, deep=True) for key, item in value.items()}
        return [self._referenced(name, item, deep=True) for item in value] if is_array(value) else value


def by_name(rows: Sequence[ToolRow | None]) -> dict[str, ToolRow]:
    """Rows by unique names: a second row of a name gets a number. Equal rows are taken once."""
    found: dict[str, ToolRow] = {}
    cells = set[Cell]()
    numbers: dict[str, int] = {}
    for row in rows:
        if row is None or (cell := cell_of(row)) in cells:
            continue
        cells.add(cell)
        name = row.name
        while name in found:
            number = numbers[row.name] = numbers.get(row.name, 1) + 1
            name = f"{row.name}_{number}"
        found[name] = row
    return found
