"""The same file in pandas, polars and DuckDB: what each keeps, what it drops, and the way back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from spindle.tables import ToolColumnType, ToolRow, migrate, read_table, tool_array, tool_column, write_table
from tables.tool_rows import READ, REPORT, SEARCH

ROWS = [READ, None, REPORT, SEARCH]
STRUCT = ToolColumnType().storage_type


@pytest.fixture(params=[".parquet", ".feather"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"tools{request.param}"
    write_table(pa.table({"tool": tool_array(ROWS), "n": [1, 2, 3, 4]}), path)
    return path


def back(table: pa.Table) -> list[ToolRow | None]:
    return tool_column(table, "tool").to_pylist()


def read_pandas(file: Path, **options: Any) -> pd.DataFrame:
    return pd.read_parquet(file, **options) if file.suffix == ".parquet" else pd.read_feather(file, **options)


def test_pandas_with_arrow_types_keeps_the_type(file: Path, tmp_path: Path) -> None:
    frame = read_pandas(file, dtype_backend="pyarrow")
    assert frame["tool"].dtype == pd.ArrowDtype(ToolColumnType())
    assert frame["tool"][0] == READ
    assert frame["tool"][2] == REPORT
    assert back(pa.Table.from_pandas(frame)) == ROWS
    frame.to_parquet(tmp_path / "again.parquet")
    again = read_table(tmp_path / "again.parquet")
    assert again["tool"].type == ToolColumnType()
    assert back(again) == ROWS


def test_plain_pandas_gives_dicts_and_drops_the_type(file: Path, tmp_path: Path) -> None:
    frame = read_pandas(file)
    assert frame["tool"].dtype == object
    assert frame["tool"][0]["1"] == "read"
    assert frame["tool"][1] is None
    # The way back goes over what pandas made of whole numbers and of fields that are missing everywhere.
    assert back(pa.Table.from_pandas(frame)) == ROWS
    assert back(pa.Table.from_pandas(frame.iloc[:2])) == [READ, None]
    frame.to_parquet(tmp_path / "again.parquet")
    again = read_table(tmp_path / "again.parquet")
    assert again["tool"].type != ToolColumnType()
    assert back(again) == ROWS


def test_polars_keeps_the_type(file: Path, tmp_path: Path) -> None:
    frame = pl.read_parquet(file) if file.suffix == ".parquet" else pl.read_ipc(file)
    kind = frame.schema["tool"]
    assert isinstance(kind, pl.BaseExtension)
    assert kind.ext_name() == "spindle.tool"
    fields = frame["tool"].ext.storage().struct
    assert fields.field("1").to_list() == ["read", None, "report", "shop.search"]
    assert back(frame.to_arrow()) == ROWS
    assert back(frame.filter(pl.col("n") > 2).to_arrow()) == [REPORT, SEARCH]
    frame.write_parquet(tmp_path / "again.parquet")
    again = read_table(tmp_path / "again.parquet")
    assert again["tool"].type == ToolColumnType(text=pa.large_string())
    assert again["tool"].to_pylist() == ROWS
    assert [change.layout for change in migrate(tmp_path / "again.parquet").changes] == [
        "tools with large texts"
    ]
    assert read_table(tmp_path / "again.parquet")["tool"].type == ToolColumnType()


def test_duckdb_reads_the_struct_and_drops_the_type(tmp_path: Path) -> None:
    path = tmp_path / "tools.parquet"
    write_table(pa.table({"tool": tool_array(ROWS), "n": [1, 2, 3, 4]}), path)
    with duckdb.connect() as database:
        names = database.execute(
            """select tool."1" from read_parquet(?) where tool."0" = 1""", [str(path)]
        ).fetchall()
        assert names == [("read",)]
        parameter = database.execute(
            """select json_extract_string(tool."3", '$.required[0]') from read_parquet(?) where n = 1""",
            [str(path)],
        ).fetchall()
        assert parameter == [("path",)]
        read = database.sql(f"select * from read_parquet('{path}') order by n").to_arrow_table()
        assert read.schema.field("tool").type == STRUCT
        assert back(read) == ROWS
        again = tmp_path / "again.parquet"
        database.execute(
            f"copy (select * from read_parquet('{path}') order by n) to '{again}' (format parquet)"
        )
    assert read_table(again)["tool"].type == STRUCT
    assert back(read_table(again)) == ROWS


def test_duckdb_takes_a_table_of_arrow_as_it_is() -> None:
    tools = pa.table({"tool": tool_array(ROWS), "n": [1, 2, 3, 4]})
    with duckdb.connect() as database:
        database.register("tools", tools)
        read = database.sql("""select tool from tools where tool."0" = 0""").to_arrow_table()
    assert back(read) == [REPORT]
