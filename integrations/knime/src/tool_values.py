"""Tools as values of KNIME: the factory that plugin.xml registers, and columns of KNIME's logical type."""

from __future__ import annotations

import json

import knime.api.schema as ks
import knime.api.types as kt
import pyarrow as pa

from spindle.tables import ToolRow, for_knime
from spindle.tables import ToolValueFactory as Cells

LOGICAL = json.dumps({"value_factory_class": "org.knime.core.node.agentic.tool.ToolValueFactory"})
"""The logical type of a column of tools."""


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
    from knime._arrow._types import LogicalTypeExtensionType

    wide = for_knime(column)
    storage = wide.type.storage_type
    wanted = LogicalTypeExtensionType(kt.get_converter(LOGICAL), storage, LOGICAL)
    chunks = [pa.ExtensionArray.from_storage(wanted, chunk.storage) for chunk in wide.chunks]
    return pa.chunked_array(chunks, wanted)
