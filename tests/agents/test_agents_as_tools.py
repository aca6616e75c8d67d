"""Agents of the workspace as tools: called by people, flows and other agents, for whoever calls them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import spindle
from spindle import Agent, AgentResult, CallOptions, Context, Finished, Paused, Principal, tool
from spindle.domain.tool import Tool
from spindle.errors import ConfigurationError, ModelError
from spindle.testing import ModelServer, ToolCall, Turn, Usage, workspace

MODEL = "openai-chat:gpt-scripted"


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(destructive=True)
def delete(name: str) -> str:
    """Delete a file."""
    return f"deleted {name}"


def colour(context: Context) -> str:
    """Ask for a colour."""
    return "it is " + context.ask("Which colour?")


@pytest.fixture(autouse=True)
def in_reach(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)


def agents(**described: dict[str, Any]) -> dict[str, Any]:
    """The settings of agents by name."""
    usual = {"model": MODEL, "description": "Does a thing."}
    return {"agents": {name: {**usual, **given} for name, given in described.items()}}


def call(tool: str, **arguments: Any) -> Turn:
    return Turn(calls=[ToolCall(tool, arguments)])


def task(agent: str, words: str = "go") -> Turn:
    return call(agent, task=words)


async def test_an_agent_is_a_tool_with_a_name_a_description_and_a_schema(server: ModelServer) -> None:
    server.feed(call("add", a=1, b=2), "It is 3.")
    described = agents(counter={"description": "Counts.", "tools": ["add"], "instructions": "Be exact."})
    async with workspace([add, delete], settings=described) as app:
        await app.sync()
        found = await app.show("counter")
        result = await app.call("counter", task="1 + 2?")
    assert (found.kind, found.description, found.spec.input_schema["required"]) == (
        "agents",
        "Counts.",
        ["task"],
    )
    assert result.text == "It is 3."
    assert result.meta is not None
    assert result.meta["io.spindle/usage"]["requests"] == 2
    first = server.requests[0]
    assert (first.tool_names, first.prompt) == (["add", "ask_user"], "1 + 2?")
    assert "Be exact." in first.instructions


async def test_an_agent_that_names_no_tools_has_none(server: ModelServer) -> None:
    server.feed("I can only talk.")
    async with workspace([add], settings=agents(talker={"ask_user": False})) as app:
        await app.call("talker", task="hello")
    assert server.requests[0].tool_names == []


async def test_arguments_and_answer_have_the_schemas_of_the_settings(server: ModelServer) -> None:
    number = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    server.feed(call("final_answer", n="x"), call("final_answer", n=4))
    async with workspace([], settings=agents(double={"input": number, "output": number})) as app:
        await app.sync()
        result = await app.call("double", n=2)
        assert (await app.show("double")).spec.output_schema == number
    assert result.structured == {"n": 4}
    assert server.requests[0].prompt == '{"n":2}'


async def test_a_flow_has_an_agent_as_a_node(server: ModelServer) -> None:
    server.feed(call("add", a=1, b=2), "three")
    async with workspace([add], settings=agents(counter={"tools": ["add"]})) as app:
        done = await app.run_flow("counter --task 'how many?'")
    assert isinstance(done, Finished)
    assert done.result.text == "three"


async def test_an_agent_delegates_to_another_and_its_use_counts(server: ModelServer) -> None:
    server.feed(task("counter", "1 + 2?"), call("add", a=1, b=2), "3", "The answer is 3.")
    async with workspace([add], settings=agents(counter={"tools": ["add"]})) as app:
        heard: list[Any] = []
        done = await Agent(app, MODEL, tools=["counter"]).run("ask", on_event=heard.append)
    assert isinstance(done, AgentResult)
    assert done.output == "The answer is 3."
    assert (done.usage.requests, done.usage.tokens) == (4, 60)
    assert done.steps == 2
    # Whoever follows the outer agent hears of the call, not of each step of the other.
    assert [event.kind for event in heard] == ["start", "tool_call", "tool_result", "text", "end"]


async def test_a_handoff_ends_the_work_with_the_answer_of_the_other(server: ModelServer) -> None:
    server.feed(task("billing", "an invoice for Ann"), "Here it is.")
    described = agents(desk={"handoffs": ["billing"]}, billing={"ask_user": False})
    async with workspace([add], settings=described) as app:
        result = await app.call("desk", task="I need an invoice")
    assert result.text == "Here it is."
    assert len(server.requests) == 2
    assert server.requests[0].tool_names == ["billing", "ask_user"]
    assert "take the task over" in server.requests[0].instructions


async def test_an_answer_that_does_not_fit_is_no_handoff(server: ModelServer) -> None:
    number = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    server.feed(task("billing"), "words", call("final_answer", n=1))
    described = agents(desk={"handoffs": ["billing"], "output": number}, billing={})
    async with workspace([], settings=described) as app:
        result = await app.call("desk", task="count")
    assert result.structured == {"n": 1}
    assert server.requests[2].tool_answers[0].text == "words"


async def test_a_circle_ends_with_a_message_to_the_model(server: ModelServer) -> None:
    server.feed(task("b"), task("a"), "b does it alone", "done")
    async with workspace([], settings=agents(a={"tools": ["b"]}, b={"tools": ["a"]})) as app:
        result = await app.call("a", task="go")
    assert result.text == "done"
    said = server.requests[2].tool_answers[0].text
    assert "the agent 'a' is at work already, and waits for this: a → b → a" in said


async def test_only_so_many_agents_work_inside_of_each_other(server: ModelServer) -> None:
    server.feed(*[task(f"a{n + 1}") for n in range(8)], *["up"] * 8)
    chain = {f"a{n}": {"tools": [f"a{n + 1}"]} for n in range(8)}
    async with workspace([], settings=agents(**chain, a8={})) as app:
        result = await app.call("a0", task="go")
    assert result.text == "up"
    assert len(server.requests) == 16
    said = server.requests[8].tool_answers[0].text
    assert "8 agents work inside of each other (a0 → a1 → a2" in said


async def test_the_limit_of_the_outer_agent_holds_inside(server: ModelServer) -> None:
    server.feed(
        task("counter"),
        Turn(calls=[ToolCall("add", {"a": 1, "b": 1})], usage=Usage(100, 100)),
        "what I know so far",
    )
    async with workspace([add], settings=agents(counter={"tools": ["add"]})) as app:
        done = await Agent(app, MODEL, tools=["counter"], limits={"tokens": 150}).run("go")
    assert isinstance(done, AgentResult)
    assert (done.ended_by, done.usage.requests, done.usage.tokens) == ("tokens", 3, 230)
    # The last one is the answer with what there is.
    assert len(server.requests) == 3


async def test_a_limit_of_the_inner_agent_is_an_error_for_the_outer(server: ModelServer) -> None:
    server.feed(task("counter"), call("add", a=1, b=1), "I do without.")
    described = agents(counter={"tools": ["add"], "limits": {"steps": 1}})
    async with workspace([add], settings=described) as app:
        done = await Agent(app, MODEL, tools=["counter"]).run("go")
        server.feed(call("add", a=1, b=1))
        with pytest.raises(ModelError, match="reached the limit `steps` before there was an answer"):
            await app.call("counter", task="go")
    assert isinstance(done, AgentResult)
    assert "reached the limit `steps`" in server.requests[2].tool_answers[0].text


async def test_agents_of_one_name_do_not_wait_for_each_others_places(server: ModelServer) -> None:
    """The limit `parallel` is that of all runs of an agent, and one keeps its place while it waits."""
    flow = "nodes:\n- id: inner\n  agent: {task: add, tools: [add], model: MODEL, limits: {parallel: 1}}\n"
    server.feed(call("inside"), call("add", a=1, b=1), "2", "two")
    async with workspace([add], files={"flows/inside.yaml": flow.replace("MODEL", f'"{MODEL}"')}) as app:
        done = await Agent(app, MODEL, tools=["inside"], limits={"parallel": 1}).run("go")
    assert isinstance(done, AgentResult)
    assert (done.output, done.usage.requests) == ("two", 4)


async def test_an_agent_sees_no_more_than_its_caller(server: ModelServer) -> None:
    def visible(principal: Principal, name: str) -> bool:
        return principal.id == "root" or name != "delete"

    server.feed("no", "no")
    described = agents(keeper={"tools": ["*d*"], "ask_user": False})
    async with workspace([add, delete], settings=described, visible=visible) as app:
        await app.call("keeper", {"task": "go"}, CallOptions(Principal("eve")))
        await app.call("keeper", {"task": "go"}, CallOptions(Principal("root")))
    assert [request.tool_names for request in server.requests] == [["add"], ["add", "delete"]]


async def test_what_the_caller_may_not_do_no_agent_does_for_them(server: ModelServer) -> None:
    def permission(principal: Principal, tool: Tool) -> bool:
        return principal.id != "eve" or tool.name != "add"

    server.feed(task("counter"), call("add", a=1, b=2), "I may not.", "So be it.")
    described = agents(desk={"tools": ["counter"]}, counter={"tools": ["add"]})
    async with workspace([add], settings=described, permission=permission) as app:
        result = await app.call("desk", {"task": "go"}, CallOptions(Principal("eve")))
    assert result.text == "So be it."
    assert "may not call add" in server.requests[2].tool_answers[0].text


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> str:
    return f'store = "{request.getfixturevalue("postgres_url")}"\n' if request.param == "postgres" else ""


SETTINGS = f"""
[agent]
model = "{MODEL}"
[agents.desk]
description = "Answers."
tools = ["keeper", "add"]
[agents.keeper]
description = "Keeps files."
tools = ["delete", "colour"]
"""


def opened(folder: Path) -> Any:
    return spindle.open(folder, tools=[add, delete, colour])


async def test_what_is_asked_inside_pauses_the_whole_tree_and_it_goes_on_there(
    tmp_path: Path, store: str, server: ModelServer
) -> None:
    (tmp_path / "spindle.toml").write_text(store + SETTINGS)
    server.feed(
        Turn(calls=[ToolCall("keeper", {"task": "tidy"}), ToolCall("add", {"a": 1, "b": 2})]),
        call("delete", name="all"),
        call("colour"),
        Turn(calls=[ToolCall("ask_user", {"question": "Sure?"})]),
        "tidied",
        "All done.",
    )
    async with opened(tmp_path) as app:
        await app.sync()
        paused = await app.run("desk", task="tidy up")
        assert isinstance(paused, Paused)
        (pause,) = paused.pauses
        assert (pause.kind, pause.details["tool"]) == ("approval", "delete")
    for answer in ({"approved": True}, "blue", "yes"):
        # Each time in parts of its own, as another process would have them, and with other settings.
        (tmp_path / "spindle.toml").write_text(store + SETTINGS.replace("Keeps files.", f"Keeps {answer}."))
        async with opened(tmp_path) as app:
            outcome = await app.resume(pause.token, answer)
            if isinstance(outcome, Paused):
                (pause,) = outcome.pauses
                assert pause.kind == "input"
    assert isinstance(outcome, Finished)
    assert outcome.result.text == "All done."
    assert outcome.result.meta is not None
    assert outcome.result.meta["io.spindle/usage"]["requests"] == 6
    assert len(server.requests) == 6
    assert [answer.text for answer in server.requests[5].tool_answers] == ["tidied", "3"]


async def test_a_mistake_in_an_agent_is_named_where_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "spindle.toml").write_text('[agents.desk]\ntools = ["add"]\ninput = { type = "array" }\n')
    with pytest.raises(ConfigurationError) as caught:
        async with spindle.open(tmp_path) as app:
            await app.sync()
    assert "spindle.toml: agents.desk.description: " in str(caught.value)
    assert 'agents.desk.input: is the JSON Schema of an object: it has type = "object"' in str(caught.value)
