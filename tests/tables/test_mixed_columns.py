"""Columns in which not every row can be called, many rows, and rows for the frameworks of others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import spindle
from servers.http_server import HttpServer
from spindle.errors import (
    AuthError,
    ConfigurationError,
    InvalidArgumentsError,
    NotFoundError,
    PermissionDeniedError,
    SpindleError,
    ToolError,
)
from spindle.tables import Port, ToolKind, ToolRow, open_rows, prompt_async, tool_table
from spindle.tables.provider import rows_from
from spindle.tables.rows import Hidden, source_of
from spindle.tables.rows_source import by_name
from spindle.testing import ModelServer, ToolCall, Turn
from tables.flow_workspace import make_workspace
from tables.tool_rows import READ

FOREIGN = ToolRow.workflow("forecast", "Of other software.")
PROGRAM = ToolRow.remote("wipe", source={"kind": "mcp", "settings": {"command": ["rm", "-rf", "/"]}})
SECRET = ToolRow.remote(
    "vault", server_uri="http://127.0.0.1:9/mcp", credential={"type": "given", "name": "far"}
)
BROKEN = ToolRow(ToolKind.MCP, "odd", input={"source": {"kind": "mcp", "settings": [1]}})
WRONG = ToolRow.remote("lost", server_uri="not a url")
BAD = [FOREIGN, PROGRAM, SECRET, BROKEN, WRONG]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with ModelServer() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield server


async def test_a_row_that_cannot_be_called_does_not_stop_the_others(model: ModelServer) -> None:
    model.feed(Turn(calls=[ToolCall("say", {"text": "hi"})]), "Done.")
    notes: list[str] = []
    async with HttpServer() as server:
        row = ToolRow.remote("say", server_uri=server.url, remote_name="echo")
        table = tool_table([*BAD, None, row])
        said = await prompt_async(table, "Say hi.", model="openai-chat:any", note=notes.append)
        assert server.calls("echo") == 1
    assert said["content"].to_pylist()[-1] == "Done."
    assert model.requests[0].tool_names == ["say"]
    told = model.requests[0].instructions
    assert "not available here, do not use them: forecast, wipe, vault, odd, lost" in told
    assert "rm" not in told  # the reason is for the user
    assert len(notes) == 5
    assert notes[0] == (
        "forecast is left out: it cannot be called: it is a workflow of other software "
        "(make the table with Spindle)"
    )
    assert "wipe is left out: it starts ['rm', '-rf', '/'], and the table is not trusted" in notes[1]


async def test_rows_that_are_left_out_are_known_by_their_error() -> None:
    wanted = [ConfigurationError, PermissionDeniedError, AuthError, ConfigurationError, ConfigurationError]
    async with HttpServer() as server:
        row = ToolRow.remote("say", server_uri=server.url, remote_name="echo")
        async with open_rows([*BAD, row], note=lambda _: None) as opened:
            assert [left.row for left in opened.left_out] == BAD
            assert [type(left.error) for left in opened.left_out] == wanted
            for bad, kind in zip(BAD, wanted, strict=True):
                with pytest.raises(kind, match=bad.name):
                    await opened.call(bad)
            assert (await opened.call(row, {"text": "hi"})).text


async def test_where_no_row_can_be_called_nothing_is_asked(model: ModelServer) -> None:
    with pytest.raises(ConfigurationError, match="workflow of other software"):
        await prompt_async([FOREIGN, None], "Go.", model="openai-chat:any")
    assert model.requests == []


async def test_many_rows_that_are_left_out_for_one_reason_are_one_note() -> None:
    notes: list[str] = []
    rows = [ToolRow.workflow(f"w{number}") for number in range(300)]
    async with open_rows([*rows, READ], trusted=True, note=notes.append) as opened:
        assert len(opened.left_out) == 300
    (note,) = notes
    assert note.startswith("w0, w1, w2, w3, w4, w5, w6, w7, w8, w9 and 290 more are left out: each cannot")


@pytest.mark.parametrize(
    "row",
    [
        ToolRow.remote("a", server_uri="not a url"),
        ToolRow.remote("a", server_uri="http://127.0.0.1:9/mcp"),
        ToolRow.remote("a", source={"kind": "mcp", "settings": {"url": "http://x", "timeout": "soon"}}),
        ToolRow.remote("a", source={"kind": "nope", "settings": {}}),
        ToolRow.remote("a", source={"kind": "mcp", "settings": {"command": ["no-such-program-x"]}}),
        ToolRow.remote("a", source={"kind": "mcp", "root": 5, "settings": {"url": "http://x"}}),
        ToolRow.remote("a", source={"kind": "mcp", "root": "\0", "settings": {"url": "http://x"}}),
        ToolRow.remote("a", server_uri="http://x", credential={"type": "bearer", "token": "${NO_SUCH}"}),
        ToolRow.remote("a", server_uri="http://x", credential={"type": "what"}),
        ToolRow.remote("a", server_uri="http://[::1"),
        ToolRow(ToolKind.WORKFLOW, "a", input={"source": {"kind": "flows", "root": 3}}),
        ToolRow(ToolKind.MCP, "a", server_uri="http://x", input={"hints": {"destructive": "x"}, "ports": 3}),
    ],
)
async def test_what_is_wrong_with_a_row_is_told_in_its_own_words(row: ToolRow) -> None:
    with pytest.raises(SpindleError) as caught:
        async with open_rows([row], trusted=True) as opened:
            await opened.call(row)
    told = f"{caught.value.message} {caught.value.hint}"
    assert caught.value.tool == "a"
    assert not [word for word in ("spindle.toml", "s1", "sources.") if word in told], told


async def test_a_row_with_an_odd_schema_costs_only_itself(model: ModelServer) -> None:
    model.feed("Done.")
    odd = [
        ToolRow.remote(
            "a", "", {"type": "object", "required": 5, "properties": []}, server_uri="http://x/mcp"
        ),
        ToolRow.workflow("b", "", {"type": "object", "required": "x"}, input_ports=[Port("t"), Port("t")]),
        ToolRow.remote("c", "", {"type": "object"}, server_uri="http://x/mcp"),
    ]
    options: dict[str, Any] = {"run_workflow": lambda *_: ("", []), "note": lambda _: None}
    await prompt_async(odd, "Go.", model="openai-chat:any", **options)
    assert {"b", "c"} <= set(model.requests[0].tool_names)
    parameters = next(
        tool["function"] for tool in model.requests[0].body["tools"] if tool["function"]["name"] == "b"
    )["parameters"]
    assert {"t", "t_2"} <= set(parameters["properties"])


# --- workflows that other software runs


async def test_workflows_of_other_software_are_run_by_it(model: ModelServer) -> None:
    ports = [Port("Data"), Port("Data")]
    row = ToolRow.workflow(
        "Forecast (2)",
        "Looks ahead.",
        {"months": {"type": "integer"}},
        input_ports=ports,
        output_ports=[Port("message"), Port("forecast"), Port("rest")],
        message_output_port=0,
        file_store_keys=["8e1f"],
    )
    seen: list[Any] = []

    def run(tool: ToolRow, configuration: dict[str, Any], inputs: list[pa.Table]) -> Any:
        seen.append((tool, configuration, inputs))
        if configuration["months"] > 12:
            raise RuntimeError("Wilhelmina cannot be forecast")
        return "Two months ahead.", [pa.table({"n": [1]}), pa.table({"who": ["Wilhelmina"]})]

    arguments = {"Data": "orders", "Data_2": "people"}
    name = "Forecast_2"

    def call(request: Any) -> Turn:
        nonlocal name
        name = request.tool_names[0]
        return Turn(calls=[ToolCall(name, {**arguments, "months": months}) for months in (2, 20)])

    model.feed(call, "Done.")
    data = {"orders": pa.table({"id": [1]}), "people": pa.table({"who": ["Wilhelmina"]})}
    options: dict[str, Any] = {"model": "openai-chat:any", "run_workflow": run, "note": pytest.fail}
    said = (await prompt_async([row], "Look ahead.", data=data, **options)).to_pylist()
    tool, configuration, inputs = min(seen, key=lambda call: call[1]["months"])
    assert (tool, configuration) == (row, {"months": 2})
    assert [table.column_names for table in inputs] == [["id"], ["who"]]
    assert data["forecast"].to_pylist() == [{"n": 1}]
    assert data["rest"].to_pylist() == [{"who": "Wilhelmina"}]
    answers = {answer["is_error"]: answer["content"] for answer in said if answer["role"] == "tool"}
    assert "Two months ahead." in answers[False]
    assert "cannot be forecast" in answers[True]
    assert "Wilhelmina" not in str([request.body for request in model.requests])


async def test_a_workflow_is_called_by_its_row_with_tables() -> None:
    row = ToolRow.workflow("Count", input_ports=[Port("in")], output_ports=[Port("out")])

    def run(_row: ToolRow, _configuration: dict[str, Any], inputs: list[pa.Table]) -> Any:
        if not inputs[0].num_rows:
            raise ValueError("no rows")
        return "ok", inputs

    async with open_rows([row], run_workflow=run) as opened:
        made = await opened.call(row, {"in": pa.table({"n": [1]})})
        assert made.structured == {"message": "ok", "tables": {"out": [{"n": 1}]}}
        with pytest.raises(InvalidArgumentsError, match="Count needs a table for in"):
            await opened.call(row, {"in": "orders"})
        with pytest.raises(ToolError, match="Count failed: no rows"):
            await opened.call(row, {"in": pa.table({"n": pa.array([], pa.int64())})})


# --- names


def test_a_name_that_is_taken_by_another_row_is_passed_over() -> None:
    rows = [ToolRow.remote(name, text) for name, text in [("a", "1"), ("a_2", "2"), ("a", "3"), ("a", "4")]]
    assert list(by_name(rows)) == ["a", "a_2", "a_3", "a_4"]


# --- rows to frameworks


@pytest.fixture
async def mixed(tmp_path: Path) -> Any:
    """A table of a flow, a server's tool and a row that cannot be called, and where they are."""
    folder = make_workspace(tmp_path / "w")
    async with spindle.open(folder) as app:
        flow = next(row for row in await rows_from(app, "flows") if row.name == "loud")
    async with HttpServer() as server:
        far = ToolRow.remote("far.say", "Says it.", server_uri=server.url, remote_name="echo")
        table = tool_table([flow, PROGRAM, far, None])
        async with open_rows(table, workspace=folder, note=lambda _: None) as opened:
            yield opened


async def test_a_mixed_column_for_langchain(mixed: Any) -> None:
    from spindle.adapters import langchain

    tools = {tool.name: tool for tool in await langchain.tools(mixed)}
    assert set(tools) == {"loud", "far_say"}
    assert (await tools["loud"].ainvoke({"text": "hi"})) == '{"said":"HI!"}'
    message = await tools["far_say"].ainvoke(
        {"type": "tool_call", "id": "1", "name": "far_say", "args": {"text": "there"}}
    )
    assert "there" in str(message.content)


async def test_a_mixed_column_for_openai(mixed: Any) -> None:
    from spindle.adapters import openai

    box = await openai.tools(mixed)
    assert {tool["function"]["name"] for tool in box.chat} == {"loud", "far_say"}
    calls = [
        {"id": "1", "type": "function", "function": {"name": "loud", "arguments": '{"text": "hi"}'}},
        {"id": "2", "type": "function", "function": {"name": "far_say", "arguments": '{"text": "you"}'}},
    ]
    answers = (await box.dispatch(calls)).messages
    assert "HI!" in answers[0]["content"]
    assert "you" in answers[1]["content"]


async def test_a_mixed_column_for_anthropic(mixed: Any) -> None:
    from spindle.adapters import anthropic

    box = await anthropic.tools(mixed)
    calls = [{"type": "tool_use", "id": "1", "name": "loud", "input": {"text": "hi"}}]
    (message,) = (await box.dispatch(calls)).messages
    assert "HI!" in str(message["content"])


async def test_a_mixed_column_for_pydantic_ai(mixed: Any, model: ModelServer) -> None:
    from pydantic_ai import Agent

    from spindle.adapters.pydantic_ai import SpindleToolset
    from spindle.agents.models import resolve

    model.feed(Turn(calls=[ToolCall("loud", {"text": "hi"}), ToolCall("far_say", {"text": "you"})]), "Done.")
    async with resolve("openai-chat:any", "key") as scripted:
        result = await Agent(scripted, toolsets=[SpindleToolset(mixed)]).run("Say hi.")
    assert result.output == "Done."
    answers = " ".join(answer.text for answer in model.requests[1].tool_answers)
    assert "HI!" in answers
    assert "you" in answers


async def test_a_mixed_column_for_the_agents_sdk(mixed: Any, model: ModelServer) -> None:
    from openai import AsyncOpenAI

    from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner
    from spindle.adapters import openai_agents

    model.feed(Turn(calls=[ToolCall("loud", {"text": "hi"}), ToolCall("far_say", {"text": "you"})]), "Done.")
    async with AsyncOpenAI(base_url=model.openai_url, api_key="any") as client:
        scripted = OpenAIChatCompletionsModel("any", client)
        agent = Agent(name="helper", model=scripted, tools=list(await openai_agents.tools(mixed)))
        result = await Runner.run(agent, "Say hi.", run_config=RunConfig(tracing_disabled=True))
    assert result.final_output == "Done."
    answers = " ".join(answer.text for answer in model.requests[1].tool_answers)
    assert "HI!" in answers
    assert "you" in answers


async def test_what_says_that_it_destroys_is_not_called_by_a_framework_unless_it_is_allowed() -> None:
    from spindle.adapters import langchain
    from spindle.domain.tool import Hints

    async with HttpServer() as server:
        row = ToolRow.remote(
            "say", server_uri=server.url, remote_name="echo", hints=Hints(destructive=True),
        )  # fmt: skip
        async with open_rows([row]) as opened:
            (tool,) = await langchain.tools(opened)
            assert "declares itself destructive" in await tool.ainvoke({"text": "hi"})
        assert server.calls("echo") == 0
        async with open_rows([row], destructive=True) as opened:
            (tool,) = await langchain.tools(opened)
            await tool.ainvoke({"text": "hi"})
        assert server.calls("echo") == 1


async def test_an_unknown_row_is_told_by_the_adapter(mixed: Any) -> None:
    from spindle.adapters import langchain

    with pytest.raises(NotFoundError, match="no tool matches 'wipe'"):
        await langchain.tools(mixed, "wipe")


# --- addresses that let in


@pytest.mark.parametrize(
    "query",
    [
        "sv=2024&se=2026-01-01&sig=S1GNED",
        "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=S1GNED",
        "X-Amz-Security-Token=S1GNED",
        "X-Amz-Credential=S1GNED",
        "X-Goog-Signature=S1GNED",
        "Expires=1&Signature=S1GNED&Key-Pair-Id=K",
        "code=S1GNED",
        "jwt=S1GNED",
    ],
)
def test_what_signs_an_address_is_not_handed_on(query: str) -> None:
    hidden = Hidden()
    table = {"kind": "openapi", "document": f"https://files.example.com/a.json?{query}"}
    source = source_of("files", table, Path("/w"), hidden)
    assert "S1GNED" not in str(source)
    assert source["settings"]["document"].startswith("https://files.example.com/a.json?")
    assert "S1GNED" in hidden.values


def test_the_rest_of_an_address_stays() -> None:
    hidden = Hidden()
    table = {"kind": "mcp", "url": "https://x.example/mcp?design=1&codec=2&side=3&assign=4"}
    assert source_of("x", table, Path("/w"), hidden)["settings"]["url"] == table["url"]
    assert hidden.values == set()
