"""Agents over columns of tools: the model is scripted, and asked over HTTP; servers, flows and processes
are real."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import spindle
from servers.http_server import HttpServer
from spindle import bearer
from spindle.errors import (
    AuthError,
    ConfigurationError,
    NotFoundError,
    PermissionDeniedError,
    TableError,
)
from spindle.tables import ToolKind, ToolRow, open_rows, prompt, prompt_async, tool_table
from spindle.tables.prompt import ENDED_BY
from spindle.tables.provider import rows_from
from spindle.testing import ModelServer, ToolCall, Turn
from tables.flow_workspace import ORDERS, SECRETS, make_workspace


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with ModelServer() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return make_workspace(tmp_path / "flows-of-mine")


@pytest.fixture
async def flows(workspace: Path) -> dict[str, ToolRow]:
    async with spindle.open(workspace) as app:
        return {row.name: row for row in await rows_from(app, "flows")}


def sent(model: ModelServer) -> str:
    """All that the model was ever sent."""
    return json.dumps([request.body for request in model.requests], ensure_ascii=False)


async def prompted(*given: Any, **options: Any) -> list[dict[str, Any]]:
    table = await prompt_async(*given, **{"model": "openai-chat:any", "note": pytest.fail, **options})
    assert table.schema.metadata[ENDED_BY] == b"answer"
    return table.to_pylist()


# --- rows of flows


async def test_a_flow_is_a_workflow_with_ports(flows: dict[str, ToolRow], workspace: Path) -> None:
    row = flows["totals"]
    assert row.kind is ToolKind.WORKFLOW
    assert row.description == "Adds orders up."
    assert row.source is not None
    assert row.source["root"] == str(workspace)
    (port,) = row.input_ports
    assert (port.name, port.type, port.description) == ("orders", "table", "What was ordered")
    assert [(column.name, column.type) for column in port.columns] == [
        ("who", "string"),
        ("amount", "number"),
    ]
    assert list(row.parameters["properties"]) == ["by"]
    assert row.parameters["required"] == ["by"]
    assert [(port.name, port.type) for port in row.output_ports] == [("totals", "table"), ("groups", "value")]
    assert row.message_output_port == 1
    assert ToolRow.from_dict(row.to_dict()) == row
    assert tool_table([row])["tool"].to_pylist() == [row]


async def test_a_flow_runs_where_it_is_said(
    flows: dict[str, ToolRow], workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = flows["loud"]
    with pytest.raises(PermissionDeniedError, match="runs a flow on this machine") as caught:
        async with open_rows([row]):
            pass
    assert "workspace=" in (caught.value.hint or "")
    async with open_rows([row], trusted=True) as opened:  # in the workspace that the row names
        assert (await opened.call(row, {"text": "a"})).structured == {"said": "A!"}
    async with open_rows([row], workspace=workspace) as opened:
        assert (await opened.call(row, {"text": "b"})).structured == {"said": "B!"}
    async with spindle.open(workspace) as app:
        async with open_rows([row], workspace=app) as opened:
            assert (await opened.call(row, {"text": "c"})).structured == {"said": "C!"}
        assert await app.tools()  # it is open still
    assert row.input is not None
    elsewhere = {**row.input, "source": {**row.input["source"], "root": str(tmp_path / "gone")}}
    moved = ToolRow(row.kind, row.name, input=elsewhere)
    monkeypatch.chdir(workspace)
    async with open_rows([moved], trusted=True) as opened:  # in the current one
        assert (await opened.call(moved, {"text": "d"})).structured == {"said": "D!"}


async def test_a_workflow_of_other_software_is_a_flow_of_the_workspace_that_is_named(workspace: Path) -> None:
    row, other = ToolRow.workflow("loud"), ToolRow.workflow("lout")
    async with open_rows([row, other], workspace=workspace) as opened:
        assert (await opened.call(row, {"text": "a"})).structured == {"said": "A!"}
        with pytest.raises(NotFoundError, match="has no flow 'lout'") as caught:
            await opened.call(other, {"text": "a"})
        assert caught.value.hint == "it has 'loud'"


# --- prompting


@pytest.mark.parametrize("name", ["openai-chat:any", "openai-responses:any", "anthropic:any"])
async def test_flows_and_servers_are_called_and_all_of_it_is_a_table(
    model: ModelServer, flows: dict[str, ToolRow], workspace: Path, name: str
) -> None:
    calls = [
        ToolCall("loud", {"text": "hi"}),
        ToolCall("far_say", {"text": "there"}),
        ToolCall("loud", {"txt": "hi"}),
    ]
    model.feed(Turn("I will.", calls=calls), "Done.")
    async with HttpServer() as server:
        row = ToolRow.remote("far.say", "Says it.", server_uri=server.url, remote_name="echo")
        tools = tool_table([flows["loud"], None, row, row])
        said = await prompted(tools, "Say hi.", model=name, workspace=workspace)
        assert server.calls("echo") == 1
    assert model.requests[0].tool_names == ["far_say", "loud"]
    assert [(row["role"], row["tool_name"], row["is_error"]) for row in said] == [
        ("user", None, None),
        ("assistant", None, None),
        ("assistant", "loud", None),
        ("assistant", "far.say", None),
        ("assistant", "loud", None),
        ("tool", "loud", False),
        ("tool", "far.say", False),
        ("tool", "loud", True),
        ("assistant", None, None),
    ]
    assert json.loads(said[5]["content"]) == {"said": "HI!"}
    assert said[5]["tool_call_id"] == said[2]["tool_call_id"]
    assert json.loads(said[2]["arguments"]) == {"text": "hi"}
    assert "txt" in said[7]["content"]
    answers = [answer.text for answer in model.requests[1].tool_answers]
    assert answers[:2] == [row["content"] for row in said[5:7]]
    assert "did you mean 'text' instead of 'txt'?" in answers[2]
    assert said[-1]["content"] == "Done."


async def test_a_conversation_goes_on_from_its_table(
    model: ModelServer, flows: dict[str, ToolRow], workspace: Path
) -> None:
    model.feed(Turn(calls=[ToolCall("loud", {"text": "hi"})]), "HI!", "Twice.")
    options: dict[str, Any] = {"model": "anthropic:any", "workspace": workspace}
    given = [{"role": "system", "content": "Be brief."}, "Say hi."]
    first = await prompt_async([flows["loud"]], given, **options)
    more = pa.concat_tables(
        [first, pa.table({"role": ["user"], "content": ["Again."]})], promote_options="default"
    )
    said = await prompt_async([flows["loud"]], more, **options)
    assert said.to_pylist()[:-1] == more.to_pylist()
    assert said["content"].to_pylist()[-1] == "Twice."
    assert said["role"].to_pylist() == [
        "system", "user", "assistant", "tool", "assistant", "user", "assistant",
    ]  # fmt: skip
    assert "Be brief." in model.requests[2].instructions
    assert model.requests[2].prompt == "Again."
    assert len(model.requests[2].tool_answers) == 1


def test_it_blocks_without_await(model: ModelServer, flows: dict[str, ToolRow], workspace: Path) -> None:
    model.feed(Turn(calls=[ToolCall("loud", {"text": "hi"})]), "HI!")
    said = prompt([flows["loud"]], "Say hi.", model="openai-chat:any", workspace=workspace)
    assert said["content"].to_pylist()[-1] == "HI!"


async def test_a_limit_that_ends_it_is_told(
    model: ModelServer, flows: dict[str, ToolRow], workspace: Path
) -> None:
    model.feed(Turn(calls=[ToolCall("loud", {"text": "hi"})]))
    notes: list[str] = []
    options: dict[str, Any] = {"model": "openai-chat:any", "workspace": workspace, "note": notes.append}
    said = await prompt_async([flows["loud"]], "Say hi.", limits={"steps": 1}, **options)
    assert said.schema.metadata[ENDED_BY] == b"steps"
    assert notes == ["it ended before there was an answer: the limit of steps was reached"]


# --- tables by reference


async def test_tables_go_to_tools_and_never_to_the_model(
    model: ModelServer, flows: dict[str, ToolRow], workspace: Path
) -> None:
    model.feed(
        Turn(
            calls=[
                ToolCall("totals", {"orders": "orders", "by": "who"}),
                ToolCall("count", {"data": "orders"}),
            ]
        ),
        Turn(
            calls=[
                ToolCall("count", {"data": "totals"}),
                ToolCall("totals", {"orders": "totals", "by": "name"}),
            ]
        ),
        Turn(calls=[ToolCall("totals", {"orders": "ordres", "by": "who"})]),
        "Two people ordered.",
    )
    data = {"orders": ORDERS}
    rows = [flows["totals"], flows["count"]]
    said = await prompted(rows, "Who ordered?", data=data, workspace=workspace)
    assert data["totals"].to_pylist() == [
        {"name": "Wilhelmina", "amount": 4711.375},
        {"name": "Bartholomew", "amount": 815.5},
    ]
    assert not [secret for secret in SECRETS if secret in sent(model)]
    assert "- orders: who (string), amount (double)" in model.requests[0].instructions
    answers = [row for row in said if row["role"] == "tool"]
    columns = [{"name": "name", "type": "string"}, {"name": "amount", "type": "double"}]
    assert json.loads(answers[0]["content"]) == {
        "totals": {"table": "totals", "columns": columns},
        "groups": 2,
    }
    assert json.loads(answers[1]["content"]) == {"count": 3}
    assert json.loads(answers[2]["content"]) == {"count": 2}
    assert "the table 'totals' has no column 'who', which totals needs of `orders`" in answers[3]["content"]
    assert "there is no table 'ordres'" in answers[4]["content"]
    assert "did you mean 'orders'?" in answers[4]["content"]
    assert [row["is_error"] for row in answers] == [False, False, False, True, True]
    shown = next(tool for tool in model.requests[0].tools if tool["function"]["name"] == "totals")["function"]
    assert shown["parameters"]["required"] == ["by", "orders"]
    assert shown["parameters"]["properties"]["orders"]["type"] == "string"
    assert "who (string), amount (number)" in shown["parameters"]["properties"]["orders"]["description"]


async def test_an_error_about_a_row_is_told_without_the_row(
    model: ModelServer, flows: dict[str, ToolRow], workspace: Path
) -> None:
    table = pa.table({"who": ["Wilhelmina"], "amount": [-4711.25]})
    wrong = pa.table({"who": ["Bartholomew"], "amount": ["815.5"]})
    calls = [
        ToolCall("check_orders", {"orders": "orders"}),
        ToolCall("totals", {"orders": "wrong", "by": "who"}),
    ]
    model.feed(Turn(calls=calls), "Bad.")
    rows = [flows["check_orders"], flows["totals"]]
    said = await prompted(rows, "Check.", data={"orders": table, "wrong": wrong}, workspace=workspace)
    assert [row["is_error"] for row in said if row["role"] == "tool"] == [True, True]
    assert "the amount of '•••' is •••" in said[3]["content"]
    assert not [secret for secret in SECRETS if secret in sent(model)]


async def test_what_a_server_gives_back_for_a_table_stays_a_table(
    model: ModelServer, workspace: Path
) -> None:
    """Also where it does not say that it is one."""
    async with spindle.open(workspace) as app:
        (row,) = [row for row in await rows_from(app, "tools") if row.name == "add_up"]
    schema = {**row.parameters, "properties": {**row.parameters["properties"]}}
    schema["properties"]["rows"] = {"type": "array", "format": "table"}
    row = ToolRow(row.kind, row.name, row.description, schema, row.input)
    model.feed(Turn(calls=[ToolCall("add_up", {"rows": "orders", "by": "who"})]), "Done.")
    data: dict[str, Any] = {"orders": ORDERS.to_pandas(), "sums": ORDERS}
    await prompted([row], "Go.", data=data, trusted=True)
    assert sorted(data) == ["orders", "sums", "sums_2"]
    assert data["sums_2"].num_rows == 2
    assert not [secret for secret in SECRETS if secret in sent(model)]


# --- who may what


async def test_what_may_destroy_is_refused_unless_it_is_allowed(model: ModelServer) -> None:
    from spindle.domain.tool import Hints

    async with HttpServer() as server:
        row = ToolRow.remote("echo", server_uri=server.url, hints=Hints(destructive=True))
        for destructive, count in ((False, 0), (True, 1)):
            model.feed(Turn(calls=[ToolCall("echo", {"text": "x"})]), "Done.")
            said = await prompted([row], "Go.", destructive=destructive)
            assert server.calls("echo") == count
            assert said[2]["is_error"] is not destructive
        assert "declares itself destructive" in str(model.requests[1].tool_answers[0].text)


async def test_credentials_are_given_or_nothing_is_asked(model: ModelServer) -> None:
    async with HttpServer() as server:
        row = ToolRow.remote("echo", server_uri=server.url, credential={"type": "given", "name": "far"})
        with pytest.raises(AuthError, match="wants the credential 'far'"):
            await prompt_async([row], "Go.", model="openai-chat:any")
        assert (server.seen, model.requests) == ([], [])
        model.feed(Turn(calls=[ToolCall("echo", {"text": "x"})]), "Done.")
        await prompted([row], "Go.", credentials={"far": bearer("t0ken-of-far")})
        assert {seen.headers.get("authorization") for seen in server.seen} == {"Bearer t0ken-of-far"}
    assert "t0ken" not in sent(model)


async def test_a_server_that_is_gone_is_told_to_the_model(model: ModelServer) -> None:
    model.feed(Turn(calls=[ToolCall("echo", {"text": "x"})]), "It is gone.")
    said = await prompted([ToolRow.remote("echo", server_uri="http://127.0.0.1:9/mcp")], "Go.")
    assert said[2]["is_error"] is True
    assert said[3]["content"] == "It is gone."


async def test_a_key_that_is_given_is_the_one_that_is_shown(
    model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = model.environment()["OPENAI_BASE_URL"]
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.delenv("OPENAI_BASE_URL")
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY is not set"):
        await prompt_async([], "Go.", model="openai-chat:any")
    for key in ("", "  "):
        with pytest.raises(ConfigurationError, match="is empty"):
            await prompt_async([], "Go.", model="openai-chat:any", key=key)
    with pytest.raises(ConfigurationError, match="cannot be used"):
        await prompt_async([], "Go.", model="nobody:any", key="k")
    assert model.requests == []
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    model.feed("Hello.")
    assert (await prompted([], "Go.", key="t0ken"))[-1]["content"] == "Hello."


# --- mistakes


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([], "there is no message"),
        ("  ", "the last message is empty"),
        ([{"role": "assistant", "content": "x"}], "the last message is of the assistant"),
        ([{"role": "usr", "content": "x"}], "message 0 has the role 'usr'"),
        ([{"role": "user", "contents": "x"}], "message 0 has 'contents'"),
        ([{"role": "user", "content": 1}], "its content is a int"),
        ([1], "message 0 is a int"),
        ([{"role": "tool", "content": "x"}, "y"], "has no tool_call_id"),
        ([{"role": "tool", "content": "x", "tool_call_id": "1"}, "y"], "there is no such call"),
        ([{"role": "assistant", "tool_call_id": "1", "tool_name": "a"}, "y"], "there is no result of it"),
        (pa.table({"role": ["user"], "contant": ["x"]}), "has no column 'content'"),
    ],
)
async def test_wrong_messages_are_told_before_the_model_is_asked(
    model: ModelServer, messages: Any, says: str
) -> None:
    with pytest.raises(TableError) as caught:
        await prompt_async([], messages, model="openai-chat:any")
    assert says in caught.value.message
    assert model.requests == []


async def test_wrong_tools_and_data_are_told(model: ModelServer, tmp_path: Path) -> None:
    with pytest.raises(TableError, match="no column of the table holds tools"):
        await prompt_async(pa.table({"a": [1]}), "Go.", model="openai-chat:any")
    with pytest.raises(TableError, match="item 0 of the tools is a str"):
        await prompt_async(["a"], "Go.", model="openai-chat:any")  # pyright: ignore[reportArgumentType]
    with pytest.raises(TableError, match="the data 'a' is a list"):
        await prompt_async([], "Go.", data={"a": [1]}, model="openai-chat:any")
    with pytest.raises(TableError, match="cannot be the id"):
        await prompt_async([], "Go.", data={"a b": ORDERS}, model="openai-chat:any")
    (tmp_path / "spindle.toml").write_text("")
    with pytest.raises(ConfigurationError, match="no model is chosen"):
        await prompt_async([], "Go.", workspace=tmp_path)
    assert model.requests == []


async def test_the_model_of_the_workspace_is_the_default(model: ModelServer, tmp_path: Path) -> None:
    (tmp_path / "spindle.toml").write_text('[agent]\nmodel = "openai-chat:of-mine"\n')
    model.feed("Hello.", "Hello.")
    await prompted([], "Go.", model=None, workspace=tmp_path)
    async with spindle.open(tmp_path) as app:
        await prompted([], "Go.", model=None, workspace=app)
        with pytest.raises(ConfigurationError, match="that is open cannot be used"):
            await asyncio.to_thread(lambda: prompt([], "Go.", workspace=app))
    assert [request.model for request in model.requests] == ["of-mine", "of-mine"]


async def test_a_call_that_wants_a_person_fails_instead_of_waiting(
    model: ModelServer, workspace: Path
) -> None:
    (workspace / "flows" / "sure.yaml").write_text(
        "version: 1\nnodes: [{id: sure, ask: {message: Are you sure?}}]\noutputs: {sure: '${sure}'}\n"
    )
    model.feed(Turn(calls=[ToolCall("sure", {})]), "Nobody is there.")
    said = await prompted([ToolRow.workflow("sure")], "Go.", workspace=workspace)
    assert said[2]["is_error"] is True
    assert "needs a person first (input), and nobody can be asked here" in said[2]["content"]
    assert said[3]["content"] == "Nobody is there."


async def test_tools_of_one_name_are_told_apart(model: ModelServer) -> None:
    model.feed(Turn(calls=[ToolCall("say", {"text": "a"}), ToolCall("say_2", {"text": "b"})]), "Done.")
    async with HttpServer() as one, HttpServer() as two:
        rows = [
            ToolRow.remote("say", server_uri=server.url, remote_name="echo") for server in (one, two, one)
        ]
        await prompted(rows, "Go.")
        assert (one.calls("echo"), two.calls("echo")) == (1, 1)
    assert model.requests[0].tool_names == ["say", "say_2"]
