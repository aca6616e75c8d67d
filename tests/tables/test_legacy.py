"""Older layouts, made field by field as docs/how-to/tables.md describes them, and names that made them."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spindle.errors import TableError
from spindle.tables import (
    Column,
    MCPToolValueFactory,
    Port,
    ToolColumnType,
    ToolKind,
    ToolRow,
    ToolValueFactory,
    WorkflowToolValueFactory,
    as_tools,
    concat_tables,
    migrate,
    read_table,
    tool_column,
    tool_table,
)
from tables.tool_rows import READ, REPORT

TEXT, INT = pa.string(), pa.int32()
SCHEMA = '{"type": "object", "properties": {"since": {"type": "string"}}}'
PARAMETERS = {"type": "object", "properties": {"since": {"type": "string"}}}

PORT = pa.struct([("0", TEXT), ("1", TEXT), ("2", TEXT), ("3", TEXT)])
WORKFLOW = pa.struct(
    [("0", TEXT), ("1", TEXT), ("2", TEXT), ("3", pa.list_(PORT)), ("4", pa.list_(PORT)), ("5", INT)]
)
MCP = pa.struct([("0", TEXT), ("1", TEXT), ("2", TEXT), ("3", TEXT)])
TEN = pa.struct(
    [("0", INT), *((str(n), TEXT) for n in range(1, 6)), ("6", INT), *((str(n), TEXT) for n in (7, 8, 9))]
)


def stored(inner: pa.DataType, keys: pa.DataType) -> pa.DataType:
    return pa.struct([("0", keys), ("1", inner)])


WORKFLOW_CELL = {
    "0": "report",
    "1": "Counts orders.",
    "2": SCHEMA,
    "3": [{"0": "orders", "1": "What was ordered", "2": "Table", "3": '{"id":"int"}'}],
    "4": [{"0": "message", "1": "", "2": "Table", "3": None}],
    "5": 0,
}
WORKFLOW_ROW = ToolRow.workflow(
    "report",
    "Counts orders.",
    PARAMETERS,
    input_ports=[Port("orders", "What was ordered", "Table", spec='{"id":"int"}')],
    output_ports=[Port("message", type="Table")],
    message_output_port=0,
)
MCP_CELL = {"0": "read", "1": "Reads a file.", "2": SCHEMA, "3": "https://files.example.com/mcp"}
MCP_ROW = ToolRow.remote(
    "read", "Reads a file.", PARAMETERS, server_uri="https://files.example.com/mcp", remote_name="read"
)
TEN_WORKFLOW_CELL = {
    "0": 0, "1": "report", "2": "Counts orders.", "3": SCHEMA,
    "4": '[{"0":"orders","1":"What was ordered","2":"Table","3":"{\\"id\\":\\"int\\"}"}]', "5": None,
    "6": -1, "7": "8e1f", "8": None, "9": None,
}  # fmt: skip
TEN_MCP_CELL = {
    "0": 1, "1": "read", "2": "Reads a file.", "3": SCHEMA, "4": None, "5": None,
    "6": -1, "7": None, "8": "https://files.example.com/mcp", "9": "files",
}  # fmt: skip
TEN_MCP_ROW = ToolRow.remote(
    "read",
    "Reads a file.",
    PARAMETERS,
    server_uri="https://files.example.com/mcp",
    remote_name="read",
    credential={"type": "given", "name": "files"},
)

LAYOUTS: dict[str, tuple[pa.DataType, list[Any], list[Any], str]] = {
    "workflow": (WORKFLOW, [WORKFLOW_CELL, None], [WORKFLOW_ROW, None], "workflow tools alone"),
    "mcp": (MCP, [None, MCP_CELL], [None, MCP_ROW], "MCP tools alone"),
    "ten": (TEN, [TEN_MCP_CELL, None], [TEN_MCP_ROW, None], "structs of ten fields"),
}


def old_table(kind: pa.DataType, cells: list[Any], name: bytes | None = None) -> pa.Table:
    """A column as it stands in a file whose extension type, if any, nobody has registered."""
    metadata = {b"ARROW:extension:name": name, b"ARROW:extension:metadata": b""} if name else None
    schema = pa.schema([pa.field("n", pa.int64()), pa.field("tools", kind, metadata=metadata)])
    return pa.table([pa.array(range(len(cells))), pa.array(cells, kind)], schema=schema)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", [None, b"spindle.workflow_tool", b"spindle.mcp_tool", b"spindle.tool"])
@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".arrows"])
def test_a_file_of_an_older_layout_is_read_and_migrated(
    tmp_path: Path, layout: str, name: bytes | None, suffix: str
) -> None:
    kind, cells, rows, words = LAYOUTS[layout]
    file = tmp_path / f"old{suffix}"
    write_plainly(old_table(kind, cells, name), file)

    assert tool_column(read_table(file)).to_pylist() == rows
    done = migrate(file)
    assert [(change.column, change.layout, change.rows) for change in done.changes] == [("tools", words, 2)]
    assert done.kept == ("n",)

    read = read_table(file)
    assert read.schema.field("tools").type == ToolColumnType()
    assert read["tools"].to_pylist() == rows
    assert read["n"].to_pylist() == [0, 1]
    assert migrate(file).changes == ()


def write_plainly(table: pa.Table, file: Path) -> None:
    if file.suffix == ".parquet":
        pq.write_table(table, file)
    elif file.suffix == ".arrows":
        with pa.OSFile(str(file), "wb") as out, pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table)
    else:
        with pa.OSFile(str(file), "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
            writer.write_table(table)


def test_a_workflow_of_ten_fields_has_its_ports_and_keys() -> None:
    (row,) = as_tools(pa.array([TEN_WORKFLOW_CELL], TEN)).to_pylist()
    assert row.kind is ToolKind.WORKFLOW
    assert row.input_ports == WORKFLOW_ROW.input_ports
    assert (row.file_store_keys, row.message_output_port, row.credential) == (("8e1f",), None, None)


@pytest.mark.parametrize("keys", [pa.string(), pa.list_(pa.string())])
def test_cells_inside_a_file_store_take_its_keys(keys: pa.DataType) -> None:
    given: Any = "8e1f" if keys == pa.string() else ["8e1f", "03ab"]
    cells = [{"0": given, "1": WORKFLOW_CELL}, None, {"0": None, "1": WORKFLOW_CELL}]
    first, second, third = as_tools(pa.array(cells, stored(WORKFLOW, keys))).to_pylist()
    assert first.file_store_keys == (("8e1f",) if keys == pa.string() else ("8e1f", "03ab"))
    assert first.input_ports == WORKFLOW_ROW.input_ports
    assert (second, third) == (None, WORKFLOW_ROW)
    # A file store may be around any layout, but not around another one.
    assert (
        as_tools(pa.array([{"0": given, "1": TEN_MCP_CELL}], stored(TEN, keys))).to_pylist()[0].name == "read"
    )
    with pytest.raises(TableError, match="does not hold tools"):
        as_tools(pa.array([], stored(stored(TEN, keys), keys)))


def test_ports_may_be_written_as_json_text() -> None:
    kind = pa.struct([("0", TEXT), ("1", TEXT), ("2", TEXT), ("3", TEXT), ("4", TEXT), ("5", INT)])
    cell = WORKFLOW_CELL | {"3": '[{"0": "orders"}]', "4": None, "5": None}
    (row,) = as_tools(pa.array([cell], kind)).to_pylist()
    assert [port.name for port in row.input_ports] == ["orders"]
    assert (row.output_ports, row.message_output_port) == ((), None)


def test_old_and_new_columns_go_below_each_other() -> None:
    old = [pa.table({"tool": pa.array(cells, kind)}) for kind, cells, _, _ in LAYOUTS.values()]
    joined = concat_tables([tool_table([READ, REPORT]), *old])
    assert joined["tool"].to_pylist() == [
        READ,
        REPORT,
        *(row for _, _, rows, _ in LAYOUTS.values() for row in rows),
    ]


@pytest.mark.parametrize(
    "kind",
    [
        pa.struct([("0", TEXT), ("1", TEXT)]),
        pa.struct([("0", TEXT), ("1", TEXT), ("2", TEXT), ("name", TEXT)]),
        pa.struct([(str(n), pa.binary()) for n in range(4)]),
        pa.struct([(str(n), TEXT) for n in range(11)]),
        pa.list_(MCP),
        pa.struct([]),
        TEXT,
    ],
)
def test_other_types_are_not_taken_for_tools(kind: pa.DataType) -> None:
    with pytest.raises(TableError, match="does not hold tools"):
        as_tools(pa.array([], kind))


def test_a_broken_cell_of_an_older_layout_is_told_by_its_row() -> None:
    cells = [MCP_CELL, MCP_CELL | {"2": "{"}]
    with pytest.raises(TableError, match=r"row 1: its parameter schema \(field 3\) is not JSON"):
        as_tools(pa.array(cells, MCP))


def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "old.parquet"
    write_plainly(old_table(MCP, [MCP_CELL | {"2": "{"}]), file)
    before = file.read_bytes()
    with pytest.raises(TableError, match=r"old\.parquet: column 'tools': row 0"):
        migrate(file)
    assert file.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["old.parquet"]


def test_a_migration_keeps_metadata_packing_and_the_rights_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "old.parquet"
    table = old_table(TEN, [TEN_MCP_CELL]).replace_schema_metadata({b"mine": b"kept"})
    pq.write_table(table, file, compression="zstd")
    file.chmod(0o640)
    link = tmp_path / "link.parquet"
    link.symlink_to(file)
    migrate(link)
    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o640
    assert pq.ParquetFile(file).metadata.row_group(0).column(0).compression == "ZSTD"
    assert read_table(file).schema.metadata[b"mine"] == b"kept"


def test_a_column_with_an_int32_kind_is_migrated_too(tmp_path: Path) -> None:
    file = tmp_path / "knime.parquet"
    pq.write_table(tool_table([READ], kind=pa.int32()), file)
    assert [change.layout for change in migrate(file).changes] == ["tools with an int32 kind"]
    assert read_table(file)["tool"].to_pylist() == [READ]


# --- the old names


@pytest.mark.parametrize(
    ("factory", "cell", "row"),
    [
        (WorkflowToolValueFactory, WORKFLOW_CELL, WORKFLOW_ROW),
        (MCPToolValueFactory, MCP_CELL, MCP_ROW),
    ],
)
def test_the_old_factories_read_both_layouts_and_write_todays(factory: Any, cell: Any, row: ToolRow) -> None:
    with pytest.warns(DeprecationWarning, match="use ToolValueFactory") as caught:
        made = factory()
    assert caught[0].filename == __file__
    assert made.decode(cell) == row
    written = made.encode(row)
    assert sorted(written) == [str(number) for number in range(9)]
    assert made.decode(written) == row
    assert (made.encode(None), made.decode(None)) == (None, None)


def test_the_factory_of_today_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        factory = ToolValueFactory()
    for row in (READ, REPORT):
        assert factory.decode(factory.encode(row)) == row
    assert factory.decode({"0": "k;l", "1": WORKFLOW_CELL}).file_store_keys == ("k", "l")  # type: ignore[union-attr]
    assert factory.decode({"0": "k", "1": TEN_MCP_CELL}).file_store_keys == ("k",)  # type: ignore[union-attr]
    with pytest.raises(TableError, match="fields a, b is no tool"):
        factory.decode({"a": 1, "b": 2})


def test_a_port_keeps_its_columns_through_a_file() -> None:
    file = io.BytesIO()
    pq.write_table(tool_table([REPORT]), file)
    (row,) = pq.read_table(io.BytesIO(file.getvalue()))["tool"].to_pylist()
    assert row.input_ports[0].columns == (Column("id", "int"), Column("at", "date"))
