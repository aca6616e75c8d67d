"""Cells as their specification has them: a reader and a writer of its text alone, beside ours."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import spindle
from spindle.errors import TableError
from spindle.tables import (
    Column,
    MCPTool,
    Port,
    Tool,
    ToolKind,
    ToolPort,
    ToolRow,
    ToolType,
    ToolValueFactory,
    WorkflowTool,
    as_tools,
    concat_tables,
    tool_array,
    tool_column,
    tool_table,
)
from spindle.tables.provider import rows_from
from tables import specified_cells as spec
from tables.flow_workspace import make_workspace
from tables.tool_rows import ANY_ROW, MEANT_ROWS, READ, REPORT

TEXT = pa.string()
PROPERTIES = {"since": {"type": "string", "description": "A date."}, "type": {"type": "integer"}}


def cells_of(*rows: ToolRow | None) -> list[Any]:
    """What a struct of nine fields shows of the rows, to whoever reads it."""
    return tool_array(rows).storage.to_pylist()


def nine(kind: pa.DataType, keys: pa.DataType) -> pa.DataType:
    texts = [(str(number), TEXT) for number in range(1, 6)]
    return pa.struct([("0", kind), *texts, ("6", pa.int32()), ("7", keys), ("8", TEXT)])


# --- its reader, over our rows


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(row=MEANT_ROWS | ANY_ROW)
def test_a_reader_of_the_specification_reads_every_row_of_ours(row: ToolRow) -> None:
    assume(row.kind in (ToolKind.WORKFLOW, ToolKind.MCP))
    (cell,) = cells_of(row)
    read = spec.read(cell)
    assert read is not None
    assert read.description == row.description
    if isinstance(read, spec.Mcp):
        assert (read.tool_name, read.server_uri) == (row.remote_name, row.server_uri)
        assert read.parameter_schema == json.loads(json.dumps(row.parameters))
    else:
        assert read.name == row.name
        assert read.message_output_port_index == row.message_output_port_index
        for ports, own in ((read.input_ports, row.input_ports), (read.output_ports, row.output_ports)):
            assert [(p.name, p.description, p.type, p.spec) for p in ports] == [
                (p.name, p.description, p.type, p.spec) for p in own
            ]
    assert tool_array([row]).to_pylist() == [row]


async def test_rows_of_flows_hold_an_array_of_ports_and_lose_nothing(tmp_path: Path) -> None:
    async with spindle.open(make_workspace(tmp_path / "w")) as app:
        rows = await rows_from(app, "flows")
    table = tool_table(rows)
    assert table["tool"].to_pylist() == rows
    for row, cell in zip(rows, cells_of(*rows), strict=True):
        read = spec.read(cell)
        assert isinstance(read, spec.Workflow)
        assert [port.name for port in read.input_ports] == [port.name for port in row.input_ports]
        assert row.source is not None
    (port,) = next(spec.read(cell) for cell in cells_of(*rows) if cell["1"] == "totals").input_ports  # type: ignore[union-attr]
    assert (port.name, port.description, port.type) == ("orders", "What was ordered", "table")


def test_the_name_in_a_cell_is_the_one_that_a_reader_may_call() -> None:
    (cell,) = cells_of(READ)
    read = spec.read(cell)
    assert isinstance(read, spec.Mcp)
    assert (READ.name, read.tool_name) == ("fs.read", "read")
    assert tool_array([READ]).to_pylist()[0].name == "fs.read"


# --- its writer, read by us

PORTS = st.lists(st.builds(spec.PortCell, *[st.text("abc", max_size=5)] * 4), max_size=2)
SCHEMAS = st.just({"type": "object", "properties": PROPERTIES}) | st.just(PROPERTIES) | st.just({})
WRITTEN = st.builds(
    spec.Workflow, st.text("abc", min_size=1), st.text("abc"), SCHEMAS, st.none(), PORTS, PORTS, st.just(-1)
) | st.builds(
    spec.Mcp, st.just("read"), st.text("abc"), SCHEMAS, st.just("https://x.example/mcp"), st.just("read")
)


@given(tools=st.lists(st.none() | WRITTEN, max_size=4))
@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.uint8()])
def test_every_row_of_a_writer_of_the_specification_is_read_and_written_again(
    tools: list[Any], kind: pa.DataType
) -> None:
    column = pa.array([spec.written(tool) for tool in tools], nine(kind, TEXT))
    rows = as_tools(column).to_pylist()
    assert [spec.read(cell) for cell in cells_of(*rows)] == [
        None if tool is None else again(tool) for tool in tools
    ]


def again(tool: spec.Workflow | spec.Mcp) -> spec.Workflow | spec.Mcp:
    """As it is written again: a schema that says nothing is that of no parameters, and a port has a type."""
    for port in (*tool.input_ports, *tool.output_ports) if isinstance(tool, spec.Workflow) else ():
        port.type = port.type or "table"
    return replace(tool, parameter_schema=tool.parameter_schema or {"type": "object", "properties": {}})


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.uint8(), pa.int64()])
@pytest.mark.parametrize(
    ("keys", "given", "read"),
    [
        (pa.string(), "8e1f;03ab", ("8e1f", "03ab")),
        (pa.binary(), b"8e1f;03ab", ("8e1f", "03ab")),
        (pa.large_binary(), b"8e1f", ("8e1f",)),
        (pa.list_(pa.string()), ["8e1f", "03ab"], ("8e1f", "03ab")),
        (pa.list_(pa.binary()), [b"8e1f", None], ("8e1f",)),
        (pa.null(), None, ()),
        (pa.binary(), b"\xff\x00", ("data:;base64,/wA=",)),
    ],
)
def test_file_store_keys_are_read_in_whatever_type_they_come(
    kind: pa.DataType, keys: pa.DataType, given: Any, read: tuple[str, ...]
) -> None:
    cells = [spec.written(spec.Workflow("report", "", {}, given)), None]
    column = pa.array(cells, nine(kind, keys))
    row, nothing = as_tools(column).to_pylist()
    assert (row.file_store_keys, nothing) == (read, None)
    joined = concat_tables([tool_table([READ]), pa.table({"tool": column})])
    assert joined["tool"].to_pylist() == [READ, row, None]
    if isinstance(given, bytes):
        assert row._filestore_keys == given


@pytest.mark.parametrize(
    "keys", [("a",), ("a", "b"), ("a;b",), ("",), ("", ""), ("[1]", "b"), ("data:;base64,AA==", "x")]
)
def test_keys_come_back_as_they_were(keys: tuple[str, ...]) -> None:
    row = ToolRow.workflow("report", file_store_keys=keys)
    assert tool_array([row]).to_pylist() == [row]


def test_cells_of_the_layout_before_are_read() -> None:
    """Objects with the ports inside, and the row's own name: what files of version 0.1 have."""
    ports = [{"name": "orders", "type": "table", "columns": [{"name": "id", "type": "int"}]}]
    given = {"source": {"kind": "flows", "settings": {}}, "ports": ports}
    gives = {"ports": [{"name": "message", "type": "table"}], "schema": {"type": "object"}}
    cell: dict[str, Any] = {
        "0": 0, "1": "report", "2": "Counts.", "3": "{}", "4": json.dumps(given), "5": json.dumps(gives),
        "6": 0, "7": '["a","b"]', "8": None,
    }  # fmt: skip
    row = as_tools(pa.array([cell], nine(pa.int8(), TEXT))).to_pylist()[0]
    assert row.input_ports == (Port("orders", columns=(Column("id", "int"),)),)
    assert (row.file_store_keys, row.output_schema) == (("a", "b"), {"type": "object"})
    assert row.source == {"kind": "flows", "settings": {}}
    named = {**cell, "0": 1, "1": "fs.read", "4": json.dumps({"tool": "read"}), "5": None, "6": -1, "7": None}
    row = as_tools(pa.array([named], nine(pa.int8(), TEXT))).to_pylist()[0]
    assert (row.name, row.remote_name) == ("fs.read", "read")


# --- KNIME's parameters


def test_a_map_of_properties_is_a_schema_and_goes_back_as_a_map() -> None:
    cell = spec.written(spec.Workflow("report", "", PROPERTIES))
    row = ToolValueFactory().decode(cell)
    assert row is not None
    assert row.parameters == {"type": "object", "properties": PROPERTIES}
    (again,) = cells_of(row)
    assert json.loads(again["3"]) == PROPERTIES
    assert again["8"] is None
    assert tool_array([row]).to_pylist() == [row]


@pytest.mark.parametrize(
    "whole",
    [
        {"type": "object"},
        {"properties": {"a": {"type": "string"}}},
        {"properties": {}},
        {"additionalProperties": {"type": "string"}},
        {"$defs": {"a": {}}},
        {"type": ["object", "null"], "properties": {}},
        {"oneOf": [{"type": "object"}]},
    ],
)
def test_a_whole_schema_stays_as_it_is(whole: Any) -> None:
    row = ToolRow.workflow("report", "", whole)
    assert row.parameters == whole
    assert tool_array([row]).to_pylist() == [row]


def test_a_property_may_have_the_name_of_a_keyword() -> None:
    odd = {"properties": {"type": "string"}, "items": {"type": "string"}, "required": {"type": "boolean"}}
    assert ToolRow.workflow("report", "", odd).parameters["properties"] == odd


# --- the classes of the specification


def test_the_classes_have_the_attributes_of_the_specification() -> None:
    port = ToolPort("orders", "What was ordered", "Table", '{"id":"int"}')
    workflow = WorkflowTool("report", "Counts.", PROPERTIES, b"8e1f;03ab", [port], None, 0)
    mcp = MCPTool("files", "Reads.", {"type": "object"}, "https://files.example.com/mcp", "read")
    assert isinstance(workflow, WorkflowTool)
    assert isinstance(mcp, MCPTool)
    assert isinstance(port, ToolPort)
    assert not isinstance(mcp, WorkflowTool)
    assert not isinstance(ToolRow(ToolKind.OPENAPI, "a"), Tool)
    assert isinstance(workflow, Tool)
    assert (workflow.tool_type, mcp.tool_type) == (ToolType.WORKFLOW, ToolType.MCP)
    assert (ToolType(0), ToolType(1)) == (ToolType.WORKFLOW, ToolType.MCP)
    assert (workflow._filestore_keys, workflow.message_output_port_index) == (b"8e1f;03ab", 0)
    assert workflow.parameter_schema["properties"] == PROPERTIES
    assert (mcp.parameter_schema, mcp.tool_name) == ({"type": "object"}, "read")
    assert (mcp.server_uri, mcp.message_output_port_index) == ("https://files.example.com/mcp", -1)
    assert mcp._filestore_keys is None
    assert list(workflow.input_ports) == [port]
    assert (port.name, port.description, port.type, port.spec) == (
        "orders", "What was ordered", "Table", '{"id":"int"}',
    )  # fmt: skip
    assert ToolPort._from_arrow_dict(port._to_arrow_dict()) == port
    factory = ToolValueFactory()
    for tool in (workflow, mcp):
        assert factory.decode(factory.encode(tool)) == tool
        assert spec.read(factory.encode(tool)).name == (tool.tool_name)  # type: ignore[union-attr]


def test_what_a_column_gives_are_instances_of_them() -> None:
    rows = tool_column(tool_table([READ, REPORT])).to_pylist()
    assert [isinstance(row, MCPTool) for row in rows] == [True, False]
    assert [isinstance(row, WorkflowTool) for row in rows] == [False, True]
    match rows[0]:
        case MCPTool(server_uri=uri):
            assert uri == READ.server_uri
        case _:
            pytest.fail("it is an MCP tool")


# --- what is wrong with a cell


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"0": float("nan")}, r"its kind \(field 0\) is null"),
        ({"0": 0.5}, r"its kind \(field 0\) is 0.5, not a whole number"),
        ({"0": float("inf")}, r"its kind \(field 0\) is inf, not a whole number"),
        ({"6": 2**40}, r"its message output port \(field 6\) is 1099511627776"),
        ({"7": "[1, 2]"}, r"file-store keys \(field 7\) are JSON, but not an array of texts"),
        ({"7": "[1"}, r"file-store keys \(field 7\) are not JSON"),
        ({"4": "[1]"}, r"input spec \(field 4\) is neither"),
        ({"4": "[" * 300 + "]" * 300}, r"input spec \(field 4\) is not JSON: nested more than"),
        ({"8": "spindle:{"}, r"server URI \(field 8\) is not JSON"),
        ({"8": "spindle:[]"}, r"server URI \(field 8\) is not a JSON object"),
    ],
)
def test_a_malformed_cell_is_told_by_its_field(wrong: dict[str, Any], says: str) -> None:
    cell = {**(spec.written(spec.Workflow("report", "", {})) or {}), **wrong}
    with pytest.raises(TableError, match=says):
        ToolValueFactory().decode(cell)
