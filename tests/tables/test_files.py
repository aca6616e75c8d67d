"""Files of tables: formats, files that are something else, and writing as a whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spindle.errors import TableError
from spindle.tables import files, migrate, read_table, tool_table, write_table
from tables.tool_rows import READ, REPORT

ROWS = [READ, None, REPORT]
SUFFIXES = [".parquet", ".feather", ".arrow", ".ipc", ".arrows", ".PARQUET"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_written_is_read(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"tools{suffix}"
    write_table(tool_table(ROWS), file)
    assert read_table(str(file))["tool"].to_pylist() == ROWS


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".arrows"])
def test_a_file_is_known_by_its_content_not_by_its_name(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"tools{suffix}"
    write_table(tool_table(ROWS), file)
    renamed = file.rename(tmp_path / "tools.dat")
    assert read_table(renamed)["tool"].to_pylist() == ROWS


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".arrows"])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.95])
def test_a_file_that_is_cut_off_is_one_clear_error(tmp_path: Path, suffix: str, share: float) -> None:
    file = tmp_path / f"tools{suffix}"
    write_table(tool_table(ROWS * 50), file)
    whole = file.read_bytes()
    file.write_bytes(whole[: max(9, int(len(whole) * share))])
    with pytest.raises(TableError) as caught:
        read_table(file)
    assert caught.value.message.startswith(f"{file} cannot be read as ")
    assert caught.value.hint == "it is damaged or cut off: write it again"
    assert "\n" not in caught.value.message


def test_a_file_with_a_damaged_middle_gives_a_clear_error_or_the_table(tmp_path: Path) -> None:
    file = tmp_path / "tools.arrow"
    write_table(tool_table(ROWS * 10), file)
    whole = file.read_bytes()
    told = 0
    for at in range(8, len(whole), max(1, len(whole) // 150)):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            read_table(file)["tool"].to_pylist()
        except (TableError, KeyError):  # KeyError: the damage is in the column's name
            told += 1
    assert told


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"name,description\nread,Reads", "is not a table: neither Parquet nor Feather nor Arrow IPC"),
        (b"PAR1 and then nothing of the kind", "cannot be read as Parquet"),
        (b"ARROW1 and then nothing of the kind", "cannot be read as Feather or Arrow IPC"),
        (b"\xff\xff\xff\xff and then nothing", "cannot be read as an Arrow IPC stream"),
    ],
)
def test_a_file_of_another_sort_is_one_clear_error(tmp_path: Path, content: bytes, says: str) -> None:
    file = tmp_path / "tools.parquet"
    file.write_bytes(content)
    for read in (read_table, migrate):
        with pytest.raises(TableError) as caught:
            read(file)
        assert f"{file} {says}" in caught.value.message


def test_a_missing_file_and_a_folder_are_told_as_such(tmp_path: Path) -> None:
    write_table(tool_table(ROWS), tmp_path / "tools.parquet")
    with pytest.raises(TableError, match="there is no file") as caught:
        read_table(tmp_path / "tool.parquet")
    assert caught.value.hint == "did you mean tools.parquet?"
    with pytest.raises(TableError, match="is a folder"):
        read_table(tmp_path)


def test_a_table_without_tools_has_nothing_to_migrate(tmp_path: Path) -> None:
    file = tmp_path / "numbers.parquet"
    pq.write_table(pa.table({"n": [1], "label": ["x"]}), file)
    with pytest.raises(TableError, match=r"no column of the table holds tools; its columns are n \(int64\)"):
        migrate(file)


def test_files_over_the_limits_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "tools.parquet"
    write_table(tool_table(ROWS * 100), file)
    monkeypatch.setattr(files, "MAX_UNPACKED", 100)
    with pytest.raises(TableError, match="unpacks to"):
        read_table(file)
    monkeypatch.setattr(files, "MAX_FILE", 100)
    with pytest.raises(TableError, match="are read up to 100"):
        read_table(file)


def test_a_name_that_says_no_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"'tools\.csv' does not say which format") as caught:
        write_table(tool_table(ROWS), tmp_path / "tools.csv")
    assert ".parquet" in (caught.value.hint or "")


def test_a_file_that_cannot_be_written_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="cannot write"):
        write_table(tool_table(ROWS), tmp_path / "no" / "tools.parquet")
    (tmp_path / "folder.parquet").mkdir()
    with pytest.raises(TableError, match="cannot write"):
        write_table(tool_table(ROWS), tmp_path / "folder.parquet")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder.parquet"]


def test_a_new_file_has_the_rights_that_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_table(tool_table(ROWS), tmp_path / "tools.parquet")
    finally:
        os.umask(before)
    assert (tmp_path / "tools.parquet").stat().st_mode & 0o777 == 0o640


# --- other processes


def python(script: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, *words], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_a_new_process_reads_the_same_tools(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"tools{suffix}"
    write_table(tool_table(ROWS), file)
    script = """
import sys, json
from spindle.tables import read_table
print(json.dumps([row and row.to_dict() for row in read_table(sys.argv[1])["tool"].to_pylist()]))
"""
    import json

    assert json.loads(python(script, str(file))) == [row and row.to_dict() for row in ROWS]


def test_who_does_not_know_the_type_sees_a_struct_and_the_type_later(tmp_path: Path) -> None:
    file = tmp_path / "tools.parquet"
    write_table(tool_table(ROWS), file)
    script = """
import sys
import pyarrow as pa, pyarrow.parquet as pq
assert "spindle" not in sys.modules
table = pq.read_table(sys.argv[1])
assert pa.types.is_struct(table["tool"].type), table.schema
assert table.schema.field("tool").metadata[b"ARROW:extension:name"] == b"spindle.tool"
assert table["tool"][0].as_py()["1"] == "read"
pq.write_table(table, sys.argv[2])

from spindle.tables import tool_column, ToolColumnType, read_table
print([row and row.name for row in tool_column(table).to_pylist()])
again = read_table(sys.argv[2])
assert again["tool"].type == ToolColumnType(), again.schema
print([row and row.name for row in again["tool"].to_pylist()])
"""
    names = "['fs.read', None, 'report']\n"
    assert python(script, str(file), str(tmp_path / "copy.parquet")) == names * 2


def test_without_pyarrow_the_way_out_is_named(tmp_path: Path) -> None:
    (tmp_path / "pyarrow.py").write_text("raise ImportError('not here')\n")
    script = """
import sys
sys.path.insert(0, sys.argv[1])
from spindle.errors import ConfigurationError
try:
    import spindle.tables
except ConfigurationError as error:
    print(error.message, error.hint)
"""
    assert "need pyarrow" in python(script, str(tmp_path))
    assert "spindle-tools[table]" in python(script, str(tmp_path))
