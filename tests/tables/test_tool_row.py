"""A tool as a value: its JSON form, the published schema, and what its specs say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given

from spindle.domain.json_schema import from_json, to_json
from spindle.domain.tool import Hints
from spindle.plugins import BUILT_IN
from spindle.tables.tool_row import Column, Port, ToolKind, ToolRow, tool_row_schema
from tables.tool_rows import ANY_ROW, MEANT_ROWS, READ, REPORT

PUBLISHED = Path(__file__).parent.parent.parent / "docs" / "reference" / "tool-row.schema.json"


def test_the_numbers_of_the_kinds_are_what_files_have_them_for() -> None:
    assert {kind.word: int(kind) for kind in ToolKind} == {
        "workflow": 0,
        "mcp": 1,
        "openapi": 2,
        "utcp": 3,
        "http": 4,
        "cli": 5,
        "websocket": 6,
        "python": 7,
        "events": 8,
        "mods": 9,
        "agents": 10,
        "other": 127,
    }


@pytest.mark.parametrize("kind", sorted({*BUILT_IN, "flows"}))
def test_every_kind_of_source_of_ours_has_a_number(kind: str) -> None:
    assert ToolKind.of_source(kind) is not ToolKind.OTHER


def test_a_kind_of_a_plugin_is_other() -> None:
    assert ToolKind.of_source("carrier-pigeon") is ToolKind.OTHER


@given(row=MEANT_ROWS)
def test_any_row_becomes_json_and_the_same_row_again(row: ToolRow) -> None:
    written = to_json(row.to_dict())
    assert ToolRow.from_dict(from_json(written)) == row


@given(row=MEANT_ROWS)
def test_the_json_of_every_row_fits_the_published_schema(row: ToolRow) -> None:
    jsonschema_rs.validate(json.loads(PUBLISHED.read_text()), from_json(to_json(row.to_dict())))


@given(row=ANY_ROW)
def test_what_to_dict_gives_is_all_there_is(row: ToolRow) -> None:
    fields = row.to_dict()
    assert set(fields) == set(ToolRow.__dataclass_fields__)
    assert from_json(to_json(fields)) == fields


def test_the_published_schema_is_the_one_in_force() -> None:
    assert json.loads(PUBLISHED.read_text()) == tool_row_schema()
    jsonschema_rs.meta.validate(tool_row_schema())


def test_the_specs_are_read_by_name() -> None:
    assert READ.remote_name == "read"
    assert READ.hints == Hints(read_only=True, destructive=False)
    assert READ.credential == {"type": "bearer", "token": "${FILES_TOKEN}"}
    assert READ.output_schema == {"type": "object", "properties": {"content": {"type": "string"}}}
    assert (READ.source, READ.input_ports) == (None, ())
    (orders,) = REPORT.input_ports
    assert orders == Port("orders", "What was ordered", "table", (Column("id", "int"), Column("at", "date")))
    assert [port.name for port in REPORT.output_ports] == ["message", "counts"]
    assert REPORT.remote_name == "report"


def test_a_spec_of_another_shape_is_nothing_to_read_and_is_kept() -> None:
    odd = {"hints": [1], "source": "x", "credential": 3, "ports": {"a": 1}, "mine": True}
    row = ToolRow(ToolKind.MCP, "a", input=odd, output={"schema": 1, "ports": [1, {"columns": 2}]})
    assert (row.hints, row.source, row.credential, row.output_schema) == (Hints(), None, None, None)
    assert row.input_ports == ()
    assert row.output_ports == (Port(""),)
    assert row.to_dict()["input"] == odd


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"kind": "mcp"}, '"name" is a required property'),
        ({"kind": "mcq", "name": "a"}, "kind: "),
        ({"kind": "mcp", "name": ""}, "name: "),
        ({"kind": "mcp", "name": "a", "colour": "red"}, "colour"),
        ({"kind": "mcp", "name": "a", "parameters": []}, "parameters: "),
        ({"kind": "workflow", "name": "a", "message_output_port": -1}, "message_output_port: "),
        ({"kind": "workflow", "name": "a", "input": {"ports": [{"type": "x"}]}}, "input.ports.0: "),
        ({"kind": "mcp", "name": "a", "input": {"credential": "s3cret"}}, "input.credential: "),
        ([], "the tool: "),
    ],
)
def test_json_that_is_no_row_is_told_by_its_place(data: Any, says: str) -> None:
    with pytest.raises(ValueError) as caught:
        ToolRow.from_dict(data)
    assert says in str(caught.value)


def test_a_row_needs_a_name_and_a_port_that_can_be_counted() -> None:
    with pytest.raises(ValueError, match="needs a name"):
        ToolRow(ToolKind.MCP, "")
    with pytest.raises(ValueError, match="output port is -1"):
        ToolRow(ToolKind.WORKFLOW, "a", message_output_port=-1)
