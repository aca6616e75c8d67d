"""Finds columns of tools, converts them to the current layout, and concatenates tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import pyarrow as pa

from spindle.errors import TableError, did_you_mean
from spindle.tables import legacy
from spindle.tables.arrow import ToolColumnType, tool_array
from spindle.tables.tool_row import ToolRow

TODAY = ToolColumnType()

Tools = pa.Table | pa.Array | pa.ChunkedArray | Sequence[ToolRow | None]
"""Tools as a table, a column or a list."""


def layout_of(kind: pa.DataType) -> str | None:
    """Describes the layout of a column of tools; None if the type does not hold tools."""
    if kind == TODAY:
        return "tools"
    if isinstance(kind, ToolColumnType):
        wide = kind.storage_type.field(0).type == pa.int32()
        return "tools with an int32 kind" if wide else "tools with large texts"
    return legacy.layout_of(kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind)


def as_tools(column: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    """Converts a column of any known layout to the current type. Length and nulls stay as they are."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    if layout_of(column.type) is None:
        raise TableError(f"a column of {column.type} does not hold tools", hint=_LAYOUTS)
    return pa.chunked_array([_chunk_as_tools(chunk) for chunk in chunks], TODAY)


def tool_column(table: pa.Table, name: str | None = None) -> pa.ChunkedArray:
    """The column of tools in a table: the named one, or the only one there is."""
    return as_tools(table.column(tool_column_name(table, name)))


def tool_column_name(table: pa.Table, name: str | None = None) -> str:
    """The name of the column of tools; raises TableError if none or several could be meant."""
    if name is not None:
        if name not in table.column_names:
            hint = did_you_mean(name, table.column_names, f"it has: {', '.join(table.column_names)}")
            raise TableError(f"the table has no column {name!r}", hint=hint)
        return name
    found = [field.name for field in table.schema if layout_of(field.type) is not None]
    if len(found) == 1:
        return found[0]
    if found:
        raise TableError(f"several columns hold tools: {', '.join(found)}", hint="say which one")
    listed = ", ".join(f"{field.name} ({_short(field.type)})" for field in table.schema) or "none at all"
    raise TableError(f"no column of the table holds tools; its columns are {listed}", hint=_LAYOUTS)


def rows_in(tools: Tools, column: str | None = None) -> list[ToolRow | None]:
    """The tools in a table, a column or a list."""
    if isinstance(tools, pa.Table):
        return tool_column(tools, column).to_pylist()
    if isinstance(tools, pa.Array | pa.ChunkedArray):
        return as_tools(tools).to_pylist()
    rows = list(cast("Sequence[Any]", tools))
    for index, row in enumerate(rows):
        if row is not None and not isinstance(row, ToolRow):
            raise TableError(f"item {index} of the tools is a {type(row).__name__}, not a ToolRow")
    return rows


def concat_tables(tables: Iterable[pa.Table]) -> pa.Table:
    """Concatenates tables. Their columns of tools may have different layouts, and columns may be missing."""
    converted = [_with_tools(table) for table in tables]
    if not converted:
        raise TableError("there is no table to concatenate")
    try:
        return pa.concat_tables(converted, promote_options="default")
    except pa.ArrowException as error:
        raise TableError(f"these tables do not go together: {error}") from None


def for_knime(column: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    """The column with its kind as int32."""
    wanted = ToolColumnType(pa.int32())
    chunks = [
        pa.ExtensionArray.from_storage(wanted, _storage(chunk).cast(wanted.storage_type))
        for chunk in as_tools(column).chunks
    ]
    return pa.chunked_array(chunks, wanted)


_LAYOUTS = "docs/how-to/tables.md describes the layouts that are read"


def _with_tools(table: pa.Table) -> pa.Table:
    for index, field in enumerate(table.schema):
        if field.type != TODAY and layout_of(field.type) is not None:
            table = table.set_column(index, field.with_type(TODAY), as_tools(table.column(index)))
    return table


def _chunk_as_tools(chunk: pa.Array) -> pa.Array:
    if chunk.type == TODAY:
        return chunk
    storage = _storage(chunk)
    if legacy.is_nine(storage.type):
        try:
            return pa.ExtensionArray.from_storage(TODAY, storage.cast(TODAY.storage_type))
        except pa.ArrowException as error:
            raise TableError(f"the column is no column of tools: {error}") from None
    return tool_array(legacy.rows_of(storage))


def _storage(chunk: pa.Array) -> pa.Array:
    return chunk.storage if isinstance(chunk, pa.ExtensionArray) else chunk


def _short(kind: pa.DataType) -> str:
    text = str(kind)
    return text if len(text) <= 40 else text[:39] + "…"
