"""A reader and a writer of cells of tools, written from the text of their specification alone.

It shares nothing with Spindle: what it reads and writes is what any other software would that follows the
specification of the unified tool value (nine fields, the kind first).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any


class Kind(IntEnum):
    WORKFLOW = 0
    MCP = 1


@dataclass
class PortCell:
    """A port: four numbered members, and no others."""

    name: str
    description: str
    type: str
    spec: str | None

    @classmethod
    def read(cls, cell: dict[str, Any]) -> PortCell:
        if set(cell) != {"0", "1", "2", "3"}:
            raise ValueError(f"a port has four members: {cell}")
        return cls(cell["0"], cell["1"], cell["2"], cell["3"])

    def written(self) -> dict[str, Any]:
        return {"0": self.name, "1": self.description, "2": self.type, "3": self.spec}


@dataclass
class Workflow:
    name: str
    description: str
    parameter_schema: dict[str, Any]
    filestore_keys: Any = None
    input_ports: list[PortCell] = field(default_factory=list[PortCell])
    output_ports: list[PortCell] = field(default_factory=list[PortCell])
    message_output_port_index: int | None = -1


@dataclass
class Mcp:
    name: str
    description: str
    parameter_schema: dict[str, Any]
    server_uri: str
    tool_name: str


def read(cell: dict[str, Any] | None) -> Workflow | Mcp | None:
    if cell is None:
        return None
    kind = Kind(cell["0"])
    schema = json.loads(cell["3"]) if cell["3"] else {}
    if kind is Kind.MCP:
        return Mcp(cell["1"], cell["2"], schema, server_uri=cell["8"], tool_name=cell["1"])
    return Workflow(
        cell["1"],
        cell["2"],
        schema,
        cell["7"],
        [PortCell.read(port) for port in json.loads(cell["4"])] if cell["4"] else [],
        [PortCell.read(port) for port in json.loads(cell["5"])] if cell["5"] else [],
        cell.get("6", -1),
    )


def written(tool: Workflow | Mcp | None) -> dict[str, Any] | None:
    if tool is None:
        return None
    common = {"1": tool.name, "2": tool.description, "3": json.dumps(tool.parameter_schema)}
    if isinstance(tool, Mcp):
        return {"0": 1, **common, "4": None, "5": None, "6": -1, "7": None, "8": tool.server_uri}
    given, gives = (
        json.dumps([port.written() for port in ports]) if ports else None
        for ports in (tool.input_ports, tool.output_ports)
    )
    index = tool.message_output_port_index
    return {"0": 0, **common, "4": given, "5": gives, "6": index, "7": tool.filestore_keys, "8": None}
