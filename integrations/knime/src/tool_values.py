"""Tools and messages as values of KNIME: the factory that plugin.xml registers, columns of KNIME's types."""

from __future__ import annotations

import json

import knime.api.schema as ks
import knime.api.types as kt
import pyarrow as pa

from spindle.tables import ToolRow, for_knime
from spindle.tables import ToolValueFactory as Cells

LOGICAL = json.dumps({"value_factory_class": "org.knime.core.node.agentic.tool.ToolValueFactory"})
"""The logical type of a column of tools."""
MESSAGE = json.dumps({"value_factory_class": "org.knime.ai.core.data.message.MessageValueFactory"})
"""The logical type of a column of messages. KNIME's AI extension has it, and registers its factory."""


class ToolValueFactory(kt.PythonValueFactory):
    """Tools of all kinds in one column: a `ToolRow` for each cell, of any layout that Spindle reads."""

    def __init__(self) -> None:
        super().__init__(ToolRow)
        self._cells = Cells()

    def decode(self, storage):
        return self._cells.decode(storage)

    def encode(self, value):
        return self._cells.encode(value)


class WorkflowToolValueFactory(ToolValueFactory):
    """The factory of columns of workflows alone: their cells are read, and written as before."""

    def encode(self, value):
        if value is None:
            return None
        properties = json.dumps(value.parameters.get("properties") or {})
        ports = [[port.numbered() for port in listed] for listed in (value.input_ports, value.output_ports)]
        tool = [value.name, value.description, properties, *ports, value.message_output_port_index]
        return {"0": ";".join(value.file_store_keys), "1": _numbered(tool)}


class MCPToolValueFactory(ToolValueFactory):
    """The factory of columns of MCP tools alone: their cells are read, and written as before."""

    def encode(self, value):
        if value is None:
            return None
        schema = json.dumps(value.parameters)
        return _numbered([value.remote_name, value.description, schema, value.server_uri])


def _numbered(values):
    return {str(number): value for number, value in enumerate(values)}


def tool_type() -> ks.LogicalType:
    """The type of a column of tools in a schema."""
    fields = [ks.int32(), *[ks.string()] * 5, ks.int32(), ks.string(), ks.string()]
    return ks.LogicalType(LOGICAL, ks.struct(*fields))


def tool_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column as KNIME takes it: its own logical type around a struct with an int32 kind."""
    wide = for_knime(column)
    return _logical(LOGICAL, wide.type.storage_type, [chunk.storage for chunk in wide.chunks])


def message_type() -> ks.LogicalType:
    """The type of a column of messages in a schema."""
    text = ks.string()
    parts, calls = ks.list_(ks.struct(text, ks.blob())), ks.list_(ks.struct(text, text, text))
    return ks.LogicalType(MESSAGE, ks.struct(text, parts, calls, text, text))


def message_columns(table: pa.Table, name: str) -> pa.Table:
    """The table with KNIME's logical type around its column of messages."""
    column = table[name]
    wrapped = _logical(MESSAGE, column.type, column.chunks)
    return table.set_column(table.column_names.index(name), name, wrapped)


def _logical(logical: str, storage: pa.DataType, chunks: list[pa.Array]) -> pa.ChunkedArray:
    from knime._arrow._types import LogicalTypeExtensionType

    wanted = LogicalTypeExtensionType(kt.get_converter(logical), storage, logical)
    return pa.chunked_array([pa.ExtensionArray.from_storage(wanted, chunk) for chunk in chunks], wanted)
