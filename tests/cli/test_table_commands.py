"""`spindle table`: from, show and migrate."""

from __future__ import annotations

import json
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from servers.http_server import HttpServer
from spindle.tables import ToolColumnType, ToolRow, read_table, tool_table
from spindle.testing import ModelServer
from tables.tool_rows import READ, REPORT

OLD = pa.struct([(str(number), pa.string()) for number in range(4)])
OLD_CELL = {"0": "read", "1": "Reads a file.", "2": "{}", "3": "https://files.example.com/mcp"}


def test_the_tools_of_sources_become_a_file(spindle, workspace, folder):
    workspace.add_server()
    workspace.write(
        "tools/mine.py", "from spindle import tool\n\n\n@tool\ndef double(n: int) -> int:\n    return 2 * n\n"
    )
    done = spindle("table", "from", "mini", "tools", "--out", "tools.parquet")
    assert (done.code, done.out) == (0, "7 tools written to tools.parquet\n")

    shown = spindle("table", "show", "tools.parquet")
    lines = [line.split("\t") for line in shown.out.splitlines()]
    assert ["python", "double", "tools", ""] in lines
    assert [line[1] for line in lines if line[0] == "mcp"] == [
        "mini.data", "mini.echo", "mini.fail", "mini.hang", "mini.paint", "mini.picture",
    ]  # fmt: skip

    rows = {row["name"]: row for row in spindle("table", "show", "tools.parquet", "--json").json}
    assert rows["mini.echo"]["parameters"]["required"] == ["text"]
    assert rows["mini.echo"]["input"]["hints"] == {"read_only": True}
    assert rows["double"]["kind"] == "python"


@pytest.mark.parametrize("suffix", ["feather", "arrow"])
def test_the_end_of_the_name_chooses_the_format(spindle, workspace, suffix):
    workspace.add_server()
    done = spindle("table", "from", "mini", "--out", f"t.{suffix}", "--column", "mine", "--json")
    assert done.json == {"file": f"t.{suffix}", "tools": 6, "left_out": []}
    assert read_table(f"t.{suffix}").column_names == ["mine"]


def test_strict_says_what_it_left_out(spindle, workspace):
    workspace.add_server()
    done = spindle("table", "from", "mini", "--out", "t.parquet", "--strict")
    assert "note: mini.echo: without its optional tags (string[])\n" in done.err
    echo = next(row for row in read_table("t.parquet")["tool"].to_pylist() if row.name == "mini.echo")
    assert sorted(echo.parameters["properties"]) == ["count", "json", "loud", "text"]


def test_a_file_for_knime_has_wide_kinds(spindle, workspace):
    workspace.add_server()
    assert spindle("table", "from", "mini", "--out", "t.parquet", "--knime").code == 0
    assert read_table("t.parquet")["tool"].type == ToolColumnType(pa.int32())


async def test_a_url_needs_no_workspace(program, folder):
    import asyncio

    async with HttpServer() as server:
        done = await asyncio.to_thread(program, "table", "from", server.url, "--out", "t.parquet")
        assert (done.code, done.out) == (0, "6 tools written to t.parquet\n")
        assert {seen.headers.get("authorization") for seen in server.seen} == {None}
    rows = read_table("t.parquet")["tool"].to_pylist()
    assert {row.server_uri for row in rows} == {server.url}


async def test_a_token_comes_out_of_a_variable(program, folder, monkeypatch):
    import asyncio

    words = ["--out", "t.parquet", "--bearer-env", "FAR_TOKEN"]
    async with HttpServer() as server:
        done = await asyncio.to_thread(program, "table", "from", server.url, *words)
        assert (done.code, server.seen) == (2, [])
        assert "FAR_TOKEN is not set" in done.err
        monkeypatch.setenv("FAR_TOKEN", "t0ken")
        done = await asyncio.to_thread(program, "table", "from", server.url, *words)
        assert done.code == 0
        assert {seen.headers.get("authorization") for seen in server.seen} == {"Bearer t0ken"}
    (row, *_) = read_table("t.parquet")["tool"].to_pylist()
    assert row.credential == {"type": "bearer", "token": "${FAR_TOKEN}"}


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["mini"], 2, "--out"),
        (["--out", "t.parquet"], 2, "SOURCE|URL"),
        (["minni", "--out", "t.parquet"], 3, "did you mean 'mini'?"),
        (["mini", "--out", "t.csv"], 14, "end its name with one of .parquet"),
        (["mini", "--out", "no/t.parquet"], 14, "cannot write no/t.parquet"),
        (["mini", "--out", "t.parquet", "--bearer-env", "X"], 2, "--bearer-env goes with a URL"),
        (["dead", "--out", "t.parquet"], 7, "nobody-has-this-program"),
        (["http://127.0.0.1:9/mcp", "--out", "t.parquet"], 7, "127.0.0.1:9"),
    ],
)
def test_mistakes_of_table_from_are_one_message(spindle, workspace, folder, words, code, says):
    workspace.add_server()
    workspace.write(
        "spindle.toml",
        (folder / "spindle.toml").read_text() + '[sources.dead]\ncommand = ["nobody-has-this-program"]\n',
    )
    done = spindle("table", "from", *words)
    assert done.code == code, done.err
    assert says in done.err
    assert "Traceback" not in done.err
    assert not (folder / "t.parquet").exists()


def test_empty_cells_are_shown_as_such(spindle, folder):
    pq.write_table(tool_table([READ, None, REPORT]), "t.parquet")
    done = spindle("table", "show", "t.parquet")
    assert done.out.splitlines()[:2] == [
        "mcp\tfs.read\thttps://files.example.com/mcp\tReads a file.",
        "-\t-\t-\t",
    ]
    assert done.err == "note: 1 cell without a tool\n"
    assert spindle("table", "show", "t.parquet", "--json").json[1] is None


def test_rows_that_are_left_out_of_a_prompt_are_told_in_the_words_of_the_shell(spindle, folder, monkeypatch):
    far = {"type": "given", "name": "far"}
    rows = [
        ToolRow.remote("wipe", source={"kind": "mcp", "settings": {"command": ["rm"]}}),
        ToolRow.remote("vault", server_uri="http://127.0.0.1:9/mcp", credential=far),
        ToolRow.remote("say", server_uri="http://127.0.0.1:9/mcp"),
    ]
    pq.write_table(tool_table(rows), "t.parquet")
    with ModelServer("Done.") as model:
        for name, value in model.environment().items():
            monkeypatch.setenv(name, value)
        done = spindle("table", "prompt", "t.parquet", "Go.", "--model", "openai-chat:any")
    assert (done.code, done.out) == (0, "Done.\n")
    assert "wipe is left out: it starts ['rm'], and the table is not trusted (pass --trust if" in done.err
    assert "wants the credential 'far' to be given (--bearer-env far=VARIABLE)" in done.err


def test_a_malformed_cell_is_one_message(spindle, folder):
    storage = tool_table([READ])["tool"].chunk(0).storage
    fields = [pa.array(["{"]) if number == 3 else part for number, part in enumerate(storage.flatten())]
    broken = pa.StructArray.from_arrays(fields, names=[str(number) for number in range(9)])
    pq.write_table(pa.table({"tool": broken}), "t.parquet")
    for words in (["show", "t.parquet"], ["prompt", "t.parquet", "Go.", "--model", "openai-chat:any"]):
        done = spindle("table", *words)
        assert done.code == 14
        assert "t.parquet: row 0: its parameter schema (field 3) is not JSON" in done.err


def test_one_of_several_columns_is_named(spindle, folder):
    two = tool_table([READ], "first").append_column("second", tool_table([REPORT])["tool"])
    pq.write_table(two, "t.parquet")
    done = spindle("table", "show", "t.parquet")
    assert (done.code, done.err) == (
        14,
        "spindle: t.parquet: several columns hold tools: first, second\n  hint: say which with --column\n",
    )
    assert spindle("table", "show", "t.parquet", "--column", "second").out.startswith("workflow\treport\t")


@pytest.mark.parametrize("command", ["show", "migrate"])
@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("nothing.parquet", None, "there is no file nothing.parquet"),
        ("list.csv", b"a,b\n", "list.csv is not a table"),
        ("cut.parquet", b"PAR1\x00\x00", "cut.parquet cannot be read as Parquet"),
        ("numbers.parquet", "numbers", "holds tools; its columns are n (int64)"),
    ],
)
def test_files_that_hold_no_tools_are_one_message(spindle, folder, command, name, content, says):
    if content == "numbers":
        pq.write_table(pa.table({"n": [1]}), name)
    elif content is not None:
        (folder / name).write_bytes(content)
    done = spindle("table", command, name)
    assert done.code == 14
    assert says in done.err
    assert done.err.count("\n") <= 2
    assert done.out == ""
    assert spindle("table", command, name, "--json").json["error"]["category"] == "table"


def test_a_file_of_an_older_layout_is_migrated_and_said_so(spindle, folder):
    pq.write_table(pa.table({"id": [7, 8], "tool": pa.array([OLD_CELL, None], OLD)}), "old.parquet")
    assert spindle("table", "show", "old.parquet").out.startswith("mcp\tread\thttps://files.example.com/mcp")
    done = spindle("table", "migrate", "old.parquet")
    assert done.out == "tool: 2 rows, which were MCP tools alone\nkept as they were: id\n"
    assert read_table("old.parquet")["tool"].type == ToolColumnType()
    assert (
        spindle("table", "migrate", "old.parquet").out == "old.parquet is up to date: nothing was changed\n"
    )


def test_a_migration_in_json_says_the_same(spindle, folder):
    pq.write_table(pa.table({"id": [7], "tool": pa.array([OLD_CELL], OLD)}), "old.parquet")
    assert spindle("table", "migrate", "old.parquet", "--json").json == {
        "file": "old.parquet",
        "rows": 1,
        "changes": [{"column": "tool", "layout": "MCP tools alone", "rows": 1}],
        "kept": ["id"],
    }


def test_help_of_table_does_not_load_pyarrow():
    script = (
        "import sys\nfrom spindle.cli.main import execute\n"
        "for words in (['table', '--help'], ['table', 'from', '--help']):\n    execute(words)\n"
        "print('pyarrow' in sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.stderr.splitlines()[-1] == "False"
    assert "migrate" in done.stdout


def test_without_pyarrow_the_command_names_the_extra(program, folder, monkeypatch):
    (folder / "pyarrow.py").write_text("raise ImportError('not here')\n")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    done = program("table", "show", "t.parquet", "--json")
    assert done.code == 2
    assert "hint: pip install 'spindle-tools[table]'" in done.err
    assert json.loads(done.out)["error"]["category"] == "configuration"
