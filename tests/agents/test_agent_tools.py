"""Which tools a model sees, under which names, and how it finds others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic_ai.models import Model

from spindle import Agent, AgentResult, Principal, tool
from spindle.testing import ModelRequest, ModelServer, ToolCall, Turn, workspace


def many(count: int) -> list[Callable[..., Any]]:
    def made(number: int) -> Callable[..., Any]:
        def function(text: str = "") -> str:
            return f"{number}: {text}"

        function.__name__ = f"tool_{number}"
        function.__doc__ = f"Handle matters of kind {number}."
        return function

    def send_invoice(customer: str) -> str:
        """Send an invoice to a customer by mail."""
        return f"sent to {customer}"

    return [made(number) for number in range(count)] + [send_invoice]


async def test_a_large_catalog_is_searched(server: ModelServer, any_model: Model) -> None:
    server.feed(
        Turn(calls=[ToolCall("search_tools", {"query": "send an invoice", "limit": 3})]),
        Turn(calls=[ToolCall("send_invoice", {"customer": "Ann"})]),
        Turn(
            calls=[
                ToolCall("describe_tool", {"name": "tool_7"}),
                ToolCall("describe_tool", {"name": "nothing"}),
            ]
        ),
        "done",
    )
    async with workspace(many(60)) as app:
        await Agent(app, any_model).run("bill Ann")
    first, second, third, last = server.requests
    assert first.tool_names == ["search_tools", "describe_tool", "ask_user"]
    assert second.tool_answers[0].text.startswith("send_invoice: Send an invoice to a customer by mail")
    assert "send_invoice" in second.tool_names
    assert third.tool_answers[-1].text == "sent to Ann"
    assert "Handle matters of kind 7" in last.tool_answers[-2].text
    assert "there is no tool 'nothing'" in last.tool_answers[-1].text
    assert "tool_7" in last.tool_names


async def test_of_found_tools_the_latest_are_kept(server: ModelServer, model: Model) -> None:
    describe = [Turn(calls=[ToolCall("describe_tool", {"name": f"tool_{n}"})]) for n in range(6)]
    server.feed(*describe, "done")
    async with workspace(many(10)) as app:
        await Agent(app, model, limits={"tools": 4}).run("go")
    assert server.requests[-1].tool_names[:4] == ["tool_2", "tool_3", "tool_4", "tool_5"]


async def test_names_are_safe_and_mean_exactly_one_tool(server: ModelServer, any_model: Model) -> None:
    files = {
        "tools/a.py": "from spindle import tool\n\n"
        '@tool(name="ask_user")\ndef f() -> str:\n    return "mine"\n\n'
        '@tool(name="x.y")\ndef g() -> str:\n    return "dot"\n\n'
        '@tool(name="x_y")\ndef h() -> str:\n    return "line"\n'
    }

    def call_all(request: ModelRequest) -> Turn:
        names = [name for name in request.tool_names if name != "ask_user"]
        return Turn(calls=[ToolCall(name, {}) for name in names])

    server.feed(call_all, "done")
    async with workspace(files=files) as app:
        done = await Agent(app, any_model).run("go")
    assert isinstance(done, AgentResult)
    assert sorted(call["tool"] for call in done.calls) == ["ask_user", "x.y", "x_y"]
    assert sorted(item.text for item in server.requests[1].tool_answers) == ["dot", "line", "mine"]


async def test_only_chosen_and_visible_tools_are_offered(server: ModelServer, model: Model) -> None:
    server.feed(Turn(calls=[ToolCall("tool_2", {}), ToolCall("tool_3", {})]), "done")

    def visible(principal: Principal, name: str) -> bool:
        return principal.id != "guest" or name != "tool_3"

    async with workspace(many(5), visible=visible) as app:
        agent = Agent(app, model, tools=["tool_*"], ask_user=False)
        done = await agent.run("go", principal=Principal("guest"))
        assert isinstance(done, AgentResult)
    assert server.requests[0].tool_names == ["tool_0", "tool_1", "tool_2", "tool_4"]
    assert [call["tool"] for call in done.calls] == ["tool_2"]
    assert "there is no tool 'tool_3'" in server.requests[1].tool_answers[1].text


@pytest.mark.npm
async def test_real_servers_and_functions_side_by_side(server: ModelServer, any_model: Model) -> None:
    def shout(text: str) -> str:
        return text.upper()

    server.feed(
        Turn(
            calls=[
                ToolCall("everything_get-sum", {"a": 2, "b": 3}),
                ToolCall("time_get_current_time", {"timezone": "Europe/Oslo"}),
                ToolCall("shout", {"text": "hey"}),
            ]
        ),
        Turn(calls=[ToolCall("everything_get-tiny-image", {})]),
        "done",
    )
    sources = {
        "everything": {"command": ["mcp-server-everything"]},
        "time": {"command": ["mcp-server-time"]},
    }
    async with workspace([shout], sources=sources) as app:
        done = await Agent(app, any_model, approve=(), taint="off").run("go")
    assert isinstance(done, AgentResult)
    assert [call["outcome"] for call in done.calls] == ["ok"] * 4
    answers = [item.text for item in server.requests[1].tool_answers]
    assert "5" in answers[0]
    assert "Europe/Oslo" in answers[1]
    assert answers[2] == "HEY"
    assert "image" in str(server.requests[2].body)


async def test_a_tool_with_a_bad_schema_and_odd_arguments_is_offered_as_the_api_takes_it(
    server: ModelServer, any_model: Model
) -> None:
    @tool(
        input_schema={
            "anyOf": [{"properties": {"$filter": {"type": "strng"}, "tags": {"type": "array"}}}],
            "required": ["$filter"],
        }
    )
    def find(**arguments: Any) -> dict[str, Any]:
        return arguments

    server.feed(Turn(calls=[ToolCall("find", {"_filter": "new", "tags": ["a"]})]), "done")
    async with workspace([find]) as app:
        done = await Agent(app, any_model).run("go")
    assert isinstance(done, AgentResult)
    assert server.requests[1].tool_answers[0].text == '{"$filter":"new","tags":["a"]}'
    sent = str(server.requests[0].body)
    assert "$filter" not in sent
    assert "strng" not in sent


async def test_a_source_that_cannot_be_asked_for_its_tools_is_done_without(
    server: ModelServer, model: Model
) -> None:
    server.feed("done")
    notes: list[str] = []
    sources = {"gone": {"command": ["/nonexistent/program"]}}
    async with workspace(many(1), sources=sources, note=notes.append) as app:
        done = await Agent(app, model).run("go")
    assert isinstance(done, AgentResult)
    assert any("gone" in note for note in notes)
    assert server.requests[0].tool_names == ["send_invoice", "tool_0", "ask_user"]
