"""The classes of the specification of tools as cells.

`MCPTool` and `WorkflowTool` are the rows of these two kinds: calling one makes a `ToolRow`, `isinstance`
looks at the kind, and the attributes are those of the row. So a column has one type of value, whatever its
maker calls it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spindle.domain.json_schema import JsonObject
from spindle.tables.keys import keys_of
from spindle.tables.parts import Port, ToolKind
from spindle.tables.tool_row import NO_PORT, ToolRow

ToolType = ToolKind


class _RowsOfKind(type):
    """The class of classes whose instances are the rows of one kind."""

    kind: ToolKind

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, ToolRow) and instance.kind is cls.kind


class _Ports(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Port)


class WorkflowTool(ToolRow, metaclass=_RowsOfKind):
    """A row of kind workflow."""

    kind = ToolKind.WORKFLOW  # pyright: ignore[reportIncompatibleVariableOverride, reportAssignmentType]

    def __new__(  # pyright: ignore[reportInconsistentConstructor]
        cls,
        name: str,
        description: str,
        parameter_schema: JsonObject | None,
        _filestore_keys: bytes | str | Sequence[str] | None = None,
        input_ports: Sequence[Port] | None = None,
        output_ports: Sequence[Port] | None = None,
        message_output_port_index: int | None = NO_PORT,
    ) -> ToolRow:
        port: Any = message_output_port_index
        return ToolRow.workflow(
            name,
            description,
            parameter_schema or None,
            input_ports=input_ports or (),
            output_ports=output_ports or (),
            message_output_port=None if port == NO_PORT else port,
            file_store_keys=keys_of(
                _filestore_keys if isinstance(_filestore_keys, str | bytes) else list(_filestore_keys or ())
            ),
        )


class MCPTool(ToolRow, metaclass=_RowsOfKind):
    """A row of kind MCP. `tool_name` is the server's name for it, by default its own."""

    kind = ToolKind.MCP  # pyright: ignore[reportIncompatibleVariableOverride, reportAssignmentType]

    def __new__(  # pyright: ignore[reportInconsistentConstructor]
        cls,
        name: str,
        description: str,
        parameter_schema: JsonObject | None,
        server_uri: str,
        tool_name: str | None = None,
    ) -> ToolRow:
        return ToolRow.remote(
            name, description, parameter_schema or None, server_uri=server_uri, remote_name=tool_name or name
        )


class ToolPort(Port, metaclass=_Ports):
    """A port of a workflow."""

    def __new__(  # pyright: ignore[reportInconsistentConstructor]
        cls, name: str, description: str = "", type: str = "table", spec: str | None = None
    ) -> Port:
        return Port(name, description, type, spec=spec)

    @staticmethod
    def _from_arrow_dict(cell: JsonObject) -> Port:
        return Port.from_dict(cell)


Tool = WorkflowTool | MCPTool
