"""Tools as data: one column of a table holds tools of every kind (extra `table`).

from spindle.tables import tool_provider, write_table

write_table(tool_provider("https://example.com/mcp"), "tools.parquet")
"""

from __future__ import annotations

from spindle.errors import ConfigurationError

try:
    import pyarrow as _pyarrow
except ImportError:
    raise ConfigurationError(
        "tables of tools need pyarrow, which is not installed", hint="pip install 'spindle-tools[table]'"
    ) from None

from spindle.tables.arrow import ToolArray, ToolColumnType, ToolScalar, tool_array, tool_table
from spindle.tables.calling import OpenRows, open_rows
from spindle.tables.columns import as_tools, concat_tables, for_knime, tool_column
from spindle.tables.files import Migration, migrate, read_table, write_table
from spindle.tables.legacy import MCPToolValueFactory, ToolValueFactory, WorkflowToolValueFactory
from spindle.tables.message_layout import message_values
from spindle.tables.prompt import prompt, prompt_async
from spindle.tables.provider import provide, tool_provider
from spindle.tables.specification import MCPTool, Tool, ToolPort, ToolType, WorkflowTool
from spindle.tables.tool_row import Column, Port, ToolKind, ToolRow, tool_row_schema

__all__ = [
    "Column",
    "MCPTool",
    "MCPToolValueFactory",
    "Migration",
    "OpenRows",
    "Port",
    "Tool",
    "ToolArray",
    "ToolColumnType",
    "ToolKind",
    "ToolPort",
    "ToolRow",
    "ToolScalar",
    "ToolType",
    "ToolValueFactory",
    "WorkflowTool",
    "WorkflowToolValueFactory",
    "as_tools",
    "concat_tables",
    "for_knime",
    "message_values",
    "migrate",
    "open_rows",
    "prompt",
    "prompt_async",
    "provide",
    "read_table",
    "tool_array",
    "tool_column",
    "tool_provider",
    "tool_row_schema",
    "tool_table",
    "write_table",
]

del _pyarrow
