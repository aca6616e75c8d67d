"""Columns of tools: any tool comes back from Arrow and its files as it went in."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from servers.examples import examples
from spindle.errors import TableError
from spindle.tables import (
    ToolArray,
    ToolColumnType,
    ToolKind,
    ToolRow,
    as_tools,
    concat_tables,
    for_knime,
    tool_array,
    tool_column,
    tool_table,
)
from tables.tool_rows import READ, REPORT, ROWS, SEARCH

MIXED = [READ, None, REPORT, SEARCH, None]


def through_ipc(table: pa.Table) -> pa.Table:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return pa.ipc.open_stream(sink.getvalue()).read_all()


def through_parquet(table: pa.Table) -> pa.Table:
    file = io.BytesIO()
    pq.write_table(table, file)
    return pq.read_table(io.BytesIO(file.getvalue()))


def through_feather(table: pa.Table) -> pa.Table:
    file = io.BytesIO()
    feather.write_feather(table, file)
    return feather.read_table(io.BytesIO(file.getvalue()))


@pytest.mark.parametrize("way", [through_ipc, through_parquet, through_feather])
@given(rows=ROWS)
@examples(60)
def test_any_tools_come_back_from_a_file_as_they_were(way: Any, rows: list[ToolRow | None]) -> None:
    read = way(tool_table(rows))
    assert read.schema.field("tool").type == ToolColumnType()
    assert read["tool"].to_pylist() == rows


@given(rows=ROWS)
def test_any_tools_come_back_from_an_array_whole_or_one_by_one(rows: list[ToolRow | None]) -> None:
    for kind in (pa.int8(), pa.int32()):
        array = tool_array(rows, kind)
        array.validate(full=True)
        assert isinstance(array, ToolArray)
        assert array.to_pylist() == rows
        assert [scalar.as_py() for scalar in array] == rows


def test_the_storage_is_a_struct_of_nine_nullable_fields() -> None:
    storage = ToolColumnType().storage_type
    assert [field.name for field in storage] == [str(number) for number in range(9)]
    text, int32 = pa.string(), pa.int32()
    assert [field.type for field in storage] == [pa.int8(), text, text, text, text, text, int32, text, text]
    assert all(field.nullable for field in storage)
    assert ToolColumnType(pa.int32()).storage_type.field(0).type == pa.int32()
    assert ToolColumnType().extension_name == "spindle.tool"


def test_what_a_cell_holds_is_what_the_page_says() -> None:
    read, report = tool_array([READ, REPORT]).storage.to_pylist()
    assert (read["0"], read["1"], read["6"], read["7"]) == (1, "read", -1, None)
    assert read["8"] == "https://files.example.com/mcp"
    assert json.loads(read["4"])["tool"] == "read"
    assert json.loads(read["4"])["display_name"] == "fs.read"
    assert json.loads(read["5"]) == {"schema": READ.output_schema}
    assert (report["0"], report["6"], report["7"]) == (0, 0, "8e1f;03ab")
    assert json.loads(report["4"]) == [{"0": "orders", "1": "What was ordered", "2": "table", "3": None}]
    assert [port["0"] for port in json.loads(report["5"])] == ["message", "counts"]
    rest = json.loads(report["8"].removeprefix("spindle:"))
    assert rest["input"]["port_columns"][0][1] == {"name": "at", "type": "date"}


def test_slices_filters_and_rows_of_a_table_hold_the_same_tools() -> None:
    table = tool_table(MIXED).append_column("n", pa.array([0, 1, 2, 3, 4]))
    assert table.slice(1, 3)["tool"].to_pylist() == MIXED[1:4]
    assert table.take([3, 1, 0])["tool"].to_pylist() == [SEARCH, None, READ]
    assert table.filter(pa.compute.field("n") > 2)["tool"].to_pylist() == [SEARCH, None]
    assert table.to_pylist()[2] == {"tool": REPORT, "n": 2}


def test_an_empty_table_still_has_its_type() -> None:
    table = tool_table([])
    assert (table.num_rows, table.schema.field("tool").type) == (0, ToolColumnType())
    assert through_parquet(table)["tool"].to_pylist() == []


def test_tables_of_every_layout_go_below_each_other() -> None:
    today = tool_table(MIXED)
    plain = pa.table({"tool": tool_array(MIXED).storage, "n": [1, 2, 3, 4, 5]})
    knime = pa.table({"tool": for_knime(today["tool"])})
    wide = plain.schema.field("tool").type
    large = [(field.name, pa.large_string() if field.type == pa.string() else field.type) for field in wide]
    views = plain["tool"].cast(pa.struct(large))
    nothing = pa.table({"tool": pa.nulls(2)})
    joined = concat_tables([today, plain, knime, pa.table({"tool": views}), nothing])
    assert joined.schema.field("tool").type == ToolColumnType()
    assert joined["tool"].to_pylist() == MIXED * 4 + [None, None]
    assert joined["n"].to_pylist() == [None] * 5 + [1, 2, 3, 4, 5] + [None] * 12


def test_tables_that_do_not_go_together_are_an_error_that_says_so() -> None:
    one, other = tool_table([READ]), tool_table([READ])
    with pytest.raises(TableError, match="do not go together"):
        concat_tables([one.append_column("n", pa.array([1])), other.append_column("n", pa.array(["x"]))])
    with pytest.raises(TableError, match="no table to concatenate"):
        concat_tables([])


def test_a_plain_struct_is_cast_by_arrow_itself() -> None:
    assert tool_array(MIXED).storage.cast(ToolColumnType()).to_pylist() == MIXED


def test_the_column_of_tools_is_found_by_what_it_holds() -> None:
    table = pa.table({"n": [1], "mine": tool_array([READ])})
    assert tool_column(table).to_pylist() == [READ]
    assert tool_column(table, "mine").to_pylist() == [READ]
    with pytest.raises(TableError, match="no column 'mime'") as caught:
        tool_column(table, "mime")
    assert caught.value.hint == "did you mean 'mine'?"
    with pytest.raises(TableError, match="int64 does not hold tools"):
        tool_column(table, "n")
    with pytest.raises(TableError, match=r"no column of the table holds tools; its columns are n \(int64\)"):
        tool_column(table.select(["n"]))
    with pytest.raises(TableError, match="several columns hold tools: mine, other"):
        tool_column(table.append_column("other", tool_array([READ])))


def cell(**changes: Any) -> dict[str, Any]:
    plain = {"0": 1, "1": "a", "2": None, "3": None, "4": None, "5": None, "6": None, "7": None, "8": None}
    return plain | {key.removeprefix("f"): value for key, value in changes.items()}


def array_of(*cells: dict[str, Any] | None) -> pa.ExtensionArray:
    return pa.ExtensionArray.from_storage(
        ToolColumnType(), pa.array(list(cells), ToolColumnType().storage_type)
    )


def test_what_other_software_leaves_out_is_filled_in() -> None:
    ports = '[{"0": "in", "1": "what", "2": "Table", "3": "spec"}]'
    first, second = array_of(cell(), cell(f0=0, f4=ports, f5="[]", f7="abc-1")).to_pylist()
    assert first == ToolRow(ToolKind.MCP, "a")
    assert second.input_ports[0].description == "what"
    assert (second.input_ports[0].type, second.input_ports[0].spec) == ("Table", "spec")
    assert (second.output_ports, second.file_store_keys) == ((), ("abc-1",))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (cell(f0=None), "kind (field 0) is null"),
        (cell(f0=99), "kind (field 0) is 99, which this Spindle does not know"),
        (cell(f0=-1), "kind (field 0) is -1"),
        (cell(f1=None), "name (field 1) is missing"),
        (cell(f3="{"), "parameter schema (field 3) is not JSON"),
        (cell(f3="[]"), "parameter schema (field 3) is not a JSON object"),
        (cell(f4="7"), "input spec (field 4) is neither a JSON object nor an array of ports"),
        (cell(f5="[1]"), "output spec (field 5) is neither"),
        (cell(f6=-2), "message output port (field 6) is -2"),
        (cell(f3="[" * 100_000), "parameter schema (field 3) is not JSON"),
    ],
)
def test_a_broken_cell_is_told_by_its_row_and_field(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(TableError) as caught:
        array_of(cell(), None, wrong).to_pylist()
    assert f"row 2: its {says}" in caught.value.message


def test_a_text_that_no_file_can_hold_is_an_error_of_its_own() -> None:
    with pytest.raises(TableError, match="do not fit into an Arrow column"):
        tool_array([ToolRow(ToolKind.MCP, "half \ud83d")])


def test_a_kind_of_another_width_is_refused() -> None:
    with pytest.raises(TableError, match="int8 or int32"):
        ToolColumnType(pa.int64())


def test_a_kind_that_does_not_fit_into_a_byte_is_no_column_of_tools() -> None:
    wide = pa.array([cell(f0=1000)], ToolColumnType(pa.int32()).storage_type)
    with pytest.raises(TableError, match="no column of tools"):
        as_tools(wide)


def test_a_large_table_has_chunks(tmp_path: Path) -> None:
    table = tool_table([READ] * 25_000)
    assert table["tool"].num_chunks == 3
    assert table["tool"].to_pylist()[24_999] == READ
