"""One column of two real servers and two flows, in a file, prompted by a process that knows only the file;
and the same from the shell."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import spindle
from servers import warm
from servers.running import program
from spindle.tables import ToolRow, concat_tables, provide, read_table, tool_provider, tool_table, write_table
from spindle.tables.provider import rows_from
from spindle.testing import ModelRequest, ModelServer, ToolCall, Turn
from tables.flow_workspace import ORDERS, SECRETS, environment, make_workspace

PROMPTER = """
import sys
import pyarrow as pa
from spindle.tables import prompt, read_table, write_table

data = {"orders": read_table("orders.parquet")}
said = prompt(read_table("tools.parquet"), "Look around.", data=data, model="openai-chat:any", trusted=True)
write_table(said, "messages.parquet")
write_table(data["totals"], "totals.parquet")
"""


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.mark.npm
async def test_two_servers_and_two_flows_in_one_column_prompted_by_another_process(
    tmp_path: Path, model: ModelServer
) -> None:
    workspace = make_workspace(tmp_path / "mine")
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "note.txt").write_text("the plumber comes at noon")
    commands = {
        "fs": {"command": [program("mcp-server-filesystem"), str(shared)]},
        "every": {"command": [program("mcp-server-everything")]},
    }
    servers = [await asyncio.to_thread(tool_provider, given, name=name) for name, given in commands.items()]
    async with spindle.open(workspace) as app:
        flows = [row for row in await rows_from(app, "flows") if row.name in ("loud", "totals")]
    mixed = concat_tables([*servers, provide(flows), tool_table([None])])
    wanted = {"fs.read_text_file", "fs.write_file", "every.echo", "every.get-sum", "loud", "totals"}
    chosen = [row is None or row.name in wanted for row in mixed["tool"].to_pylist()]
    table = mixed.filter(pa.array(chosen))
    assert table.num_rows == len(wanted) + 1
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    write_table(table, elsewhere / "tools.parquet")
    write_table(ORDERS, elsewhere / "orders.parquet")

    def again(request: ModelRequest) -> Turn:
        """It is shown what was wrong with its call, and makes it right."""
        assert "note.text" in request.tool_answers[0].text
        return Turn(calls=[ToolCall("fs_read_text_file", {"path": str(shared / "note.txt")})])

    model.feed(
        Turn(calls=[
            ToolCall("fs_read_text_file", {"path": str(shared / "note.text")}),
            ToolCall("every_get-sum", {"a": 2, "b": "three"}),
            ToolCall("every_echo", {"message": "hello"}),
            ToolCall("loud", {"text": "hello"}),
            ToolCall("totals", {"orders": "orders", "by": "who"}),
            ToolCall("fs_write_file", {"path": str(shared / "new.txt"), "content": "x"}),
        ]),
        again,
        "The plumber comes at noon.",
    )  # fmt: skip
    done = await asyncio.to_thread(
        subprocess.run, [warm.PYTHON, "-c", PROMPTER], cwd=elsewhere, capture_output=True, text=True,
        env=environment(model.environment()), timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = read_table(elsewhere / "messages.parquet").to_pylist()
    results: dict[str, list[dict[str, Any]]] = {}
    for row in said:
        if row["role"] == "tool":
            results.setdefault(row["tool_name"], []).append(row)
    assert [row["is_error"] for row in results["fs.read_text_file"]] == [True, False]
    assert "the plumber comes at noon" in results["fs.read_text_file"][1]["content"]
    (invalid,) = results["every.get-sum"]
    assert invalid["is_error"]
    assert "three" in invalid["content"]
    assert "hello" in results["every.echo"][0]["content"]
    assert json.loads(results["loud"][0]["content"]) == {"said": "HELLO!"}
    assert json.loads(results["totals"][0]["content"])["totals"]["table"] == "totals"
    assert results["fs.write_file"][0]["is_error"]
    assert not (shared / "new.txt").exists()
    assert said[-1]["content"] == "The plumber comes at noon."
    assert read_table(elsewhere / "totals.parquet").num_rows == 2
    # What the model was sent: the error of the invalid call, and nothing of the rows.
    sent = json.dumps([request.body for request in model.requests])
    assert "three" in model.requests[1].tool_answers[1].text
    assert not [secret for secret in SECRETS if secret in sent]


# --- the shell


def shell(folder: Path, *words: str, model: ModelServer | None = None, **more: str) -> Any:
    given = environment({**(model.environment() if model else {}), **more, "NO_COLOR": "1"})
    for name in () if model else ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        given.pop(name, None)
    return subprocess.run(
        [warm.SPINDLE, "table", *words],
        cwd=folder, capture_output=True, text=True, env=given, timeout=300,
    )  # fmt: skip


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = make_workspace(tmp_path / "mine")
    done = shell(folder, "from", "flows", "--out", "tools.parquet")
    assert done.returncode == 0, done.stderr
    write_table(ORDERS, folder / "orders.parquet")
    return folder


def test_from_the_shell(workspace: Path, model: ModelServer) -> None:
    shown = shell(workspace, "show", "tools.parquet")
    assert "workflow" in shown.stdout
    assert "totals" in shown.stdout
    calls = [ToolCall("totals", {"orders": "orders", "by": "who"}), ToolCall("loud", {})]
    model.feed(Turn(calls=calls), "Two people.", Turn(calls=calls[:1]), "Two.")
    words = ["tools.parquet", "Who ordered?", "--data", "orders=orders.parquet", "-m", "openai-chat:any"]
    done = shell(
        workspace, "prompt", *words, "-w", ".", "--out", "said.parquet", "--data-out", "made", model=model
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Two people.\n"
    assert '→ totals {"orders":"orders","by":"who"}' in done.stderr
    assert "✗ loud: the arguments do not fit" in done.stderr
    assert read_table(workspace / "said.parquet")["content"].to_pylist()[-1] == "Two people."
    assert read_table(workspace / "made" / "totals.parquet").num_rows == 2
    done = shell(workspace, "prompt", *words, "--trust", "--json", model=model)
    assert [row["role"] for row in json.loads(done.stdout)] == ["user", "assistant", "tool", "assistant"]
    assert "tables were made and not written: totals" in done.stderr
    sent = json.dumps([request.body for request in model.requests])
    assert not [secret for secret in SECRETS if secret in sent]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["tools.parquet", "Hi"], ["no model is chosen", "--model provider:name"]),
        (["tools.parquet", "Hi", "-m", "gpt"], ["does not say which provider's model it is"]),
        (["tools.parquet", "Hi", "-m", "openai:x"], ["OPENAI_API_KEY is not set"]),
        (["tols.parquet", "Hi", "-m", "openai:x"], ["there is no file tols.parquet", "tools.parquet"]),
        (["orders.parquet", "Hi", "-m", "openai:x"], ["orders.parquet: no column of the table holds tools"]),
        (["tools.parquet", "Hi", "-m", "openai:x", "--column", "tol"], ["has no column 'tol'", "'tool'"]),
        (
            ["tools.parquet", "Hi", "-m", "openai:x", "--data", "orders"],
            ["is not NAME=VALUE", "orders=orders.pa"],
        ),
        (["tools.parquet", "Hi", "-m", "openai:x", "--data", "o=o.parquet"], ["there is no file o.parquet"]),
        (["tools.parquet", "Hi", "-m", "openai:x", "--out", "said.txt"], ["said.txt", ".parquet"]),
        (["tools.parquet", "Hi", "-m", "openai:x", "--bearer-env", "a=NONE_SUCH"], ["NONE_SUCH is not set"]),
        (["tools.parquet", " ", "-m", "openai:x"], ["the last message is empty"]),
    ],
)
def test_mistakes_in_the_shell_are_told(workspace: Path, words: list[str], says: list[str]) -> None:
    trust = ["--trust"] if "openai:x" in words else []
    done = shell(workspace, "prompt", *words, *trust)
    assert done.returncode not in (0, 1)
    assert "Traceback" not in done.stderr
    assert [sentence for sentence in says if sentence not in done.stderr] == [], done.stderr


def test_a_file_that_is_not_trusted_is_told_with_the_ways_out(workspace: Path, model: ModelServer) -> None:
    words = ["tools.parquet", "Hi", "-m", "openai-chat:any"]
    done = shell(workspace, "prompt", *words, model=model)
    assert "runs a flow on this machine" in done.stderr
    assert "--trust" in done.stderr
    assert "-w PATH" in done.stderr
    row = ToolRow.remote(
        "a", server_uri="http://127.0.0.1:9/mcp", credential={"type": "given", "name": "far"}
    )
    write_table(tool_table([row]), workspace / "tools.parquet")
    done = shell(workspace, "prompt", *words, model=model)
    assert "--bearer-env NAME=VARIABLE" in done.stderr
    assert model.requests == []
