"""Tools of a catalog through the OpenAI Agents SDK, with its own runner, over HTTP."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

import spindle
from adapters.samples import PIXEL, add
from agents import (
    Agent,
    FunctionTool,
    Model,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    RunState,
    ToolGuardrailFunctionOutput,
    ToolOutputImage,
    function_tool,
    tool_input_guardrail,
)
from spindle.adapters.dispatch import CallPaused
from spindle.adapters.openai_agents import AgentTools, from_openai_agents, tools
from spindle.app import Spindle
from spindle.testing import ModelServer, ToolCall, Turn, workspace

QUIET = RunConfig(tracing_disabled=True)


@pytest.fixture
async def client(model: ModelServer) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=model.openai_url, api_key="any", max_retries=0) as opened:
        yield opened


@pytest.fixture
def scripted(client: AsyncOpenAI) -> Model:
    return OpenAIResponsesModel("gpt-scripted", client)


def agent_of(model: Model, offered: AgentTools) -> Agent[Any]:
    return Agent(name="helper", model=model, tools=list(offered))


async def run(agent: Agent[Any], given: Any = "go", **more: Any) -> Any:
    return await Runner.run(agent, given, run_config=QUIET, **more)


class Till:
    """A tool that counts what it was paid, and one beside it that counts its calls."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.looked = 0

    def tools(self) -> list[Any]:
        def pay(amount: int, context: spindle.Context) -> str:
            """Pay an amount."""
            if not context.approve(f"Pay {amount}?"):
                return "nothing was paid"
            self.paid.append(amount)
            return f"paid {amount}"

        def look() -> str:
            """Look into the till."""
            self.looked += 1
            return f"looked {self.looked}"

        return [pay, look]


async def test_an_agent_calls_tools_of_the_catalog(app: Spindle, model: ModelServer, scripted: Model) -> None:
    model.feed(
        Turn(
            calls=[
                ToolCall("add", {"a": 1, "b": 2}),
                ToolCall("time_get_current_time", {"timezone": "UTC"}),
                ToolCall("odd_name", {"config": "x", "run_manager": "y"}),
                ToolCall("broken"),
                ToolCall("picture"),
                ToolCall("add", {"a": "one", "b": 2}),
            ]
        ),
        "done",
    )
    result = await run(agent_of(scripted, await tools(app)))
    assert result.final_output == "done"
    answers = [answer.text for answer in model.requests[1].tool_answers]
    assert answers[0] == "3"
    assert "UTC" in answers[1]
    assert answers[2] == "x/y"
    assert answers[3].startswith("Error:")
    assert "out of order" in answers[3]
    assert "integer" in answers[5]
    assert f"data:image/png;base64,{PIXEL}" in str(model.requests[1].messages)
    sent = {tool["name"]: tool for tool in model.requests[0].tools}
    assert sent["add"]["parameters"]["required"] == ["a", "b"]
    assert sent["add"]["strict"] is False


async def test_calls_of_one_turn_are_made_at_the_same_time(
    app: Spindle, model: ModelServer, client: AsyncOpenAI
) -> None:
    model.feed(Turn(calls=[ToolCall("meet", {"name": "ann"}), ToolCall("meet", {"name": "bob"})]), "done")
    chat = OpenAIChatCompletionsModel("gpt-scripted", client)
    await run(agent_of(chat, await tools(app, "meet")))
    met = sorted(answer.text for answer in model.requests[1].tool_answers)
    assert met == ["ann met somebody", "bob met somebody"]


async def test_schemas_that_are_strict_are_offered_so_and_others_are_not(scripted: Model) -> None:
    @spindle.tool(input_schema={
        "type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
        "additionalProperties": False,
    })  # fmt: skip
    def closed(a: str) -> str:
        """All of it is known."""
        return a

    def loose(a: str, b: str = "") -> str:
        """Some of it may be left out."""
        return a + b

    async with workspace([closed, loose]) as app:
        offered = {tool.name: tool for tool in await tools(app, strict=True)}
        assert {name: tool.strict_json_schema for name, tool in offered.items()} == {
            "closed": True,
            "loose": False,
        }
        assert offered["loose"].params_json_schema == (await app.show("loose")).input_schema
        assert not any(tool.strict_json_schema for tool in await tools(app))


async def test_an_approval_is_an_interruption_and_siblings_are_not_repeated(
    model: ModelServer, scripted: Model
) -> None:
    till = Till()
    async with workspace(till.tools()) as app:
        offered = await tools(app)
        agent = agent_of(scripted, offered)
        model.feed(Turn(calls=[ToolCall("pay", {"amount": 5}), ToolCall("look")]), "done")
        first = await run(agent)
        [waits] = first.interruptions
        assert (waits.tool_name, till.paid, till.looked) == ("pay", [], 1)
        [pause] = await offered.pauses(waits)
        assert (pause.kind, pause.message) == ("approval", "Pay 5?")
        state = first.to_state()
        state.approve(waits)
        last = await run(agent, state)
        assert last.final_output == "done"
        assert (till.paid, till.looked) == ([5], 1)
        answers = sorted(answer.text for answer in model.requests[1].tool_answers)
        assert answers == ["looked 1", "paid 5"]
        assert await app.pauses() == []


async def test_a_rejected_call_is_never_made_and_nobody_can_allow_it_later(
    model: ModelServer, scripted: Model
) -> None:
    till = Till()
    async with workspace(till.tools()) as app:
        agent = agent_of(scripted, await tools(app))
        model.feed(Turn(calls=[ToolCall("pay", {"amount": 5})]), "a pity")
        first = await run(agent)
        state = first.to_state()
        state.reject(first.interruptions[0])
        assert (await run(agent, state)).final_output == "a pity"
        assert (till.paid, await app.pauses()) == ([], [])


async def test_a_question_is_answered_and_the_state_goes_on(
    app: Spindle, model: ModelServer, scripted: Model
) -> None:
    offered = await tools(app)
    agent = agent_of(scripted, offered)
    model.feed(Turn(calls=[ToolCall("invite", {"who": "ann"}), ToolCall("invite", {"who": "bob"})]), "done")
    first = await run(agent)
    ann, bob = first.interruptions
    state = first.to_state()
    await offered.answer(state, ann, "the harbour")
    second = await run(agent, state)  # the other still waits
    assert [item.call_id for item in second.interruptions] == [bob.call_id]
    state = second.to_state()
    with pytest.raises(spindle.SpindleError, match="does not fit"):
        await offered.answer(state, bob, {"not": "a text"})
    await offered.refuse(state, bob, "not hungry")
    last = await run(agent, state)
    assert last.final_output == "done"
    texts = [answer.text for answer in model.requests[1].tool_answers]
    assert texts[0] == "ann comes to the harbour"
    assert "not hungry" in texts[1]


async def test_a_question_that_was_only_approved_is_told_and_can_still_be_answered(
    app: Spindle, model: ModelServer, scripted: Model
) -> None:
    offered = await tools(app)
    agent = agent_of(scripted, offered)
    model.feed(Turn(calls=[ToolCall("invite", {"who": "ann"})]), "done")
    first = await run(agent)
    state = first.to_state()
    state.approve(first.interruptions[0])
    kept = state.to_string()
    with pytest.raises(CallPaused, match="Where do we eat") as caught:
        await run(agent, state)
    [call] = caught.value.calls
    await app.resume(call.pauses[0].token, "the harbour")
    again = await RunState.from_string(agent, kept)
    assert (await run(agent, again)).final_output == "done"
    assert model.requests[-1].tool_answers[0].text == "ann comes to the harbour"


PROCESS = """
import asyncio, sys
from agents import Agent, OpenAIResponsesModel, RunConfig, Runner, RunState
from openai import AsyncOpenAI
import spindle
from spindle.adapters.openai_agents import tools

def invite(who: str, context: spindle.Context) -> str:
    '''Invite somebody to lunch.'''
    with open("made.txt", "a") as file:
        file.write(who + "\\n")
    return f"{who} comes to {context.ask('Where do we eat?')}"

async def main(step, url):
    quiet = RunConfig(tracing_disabled=True)
    async with spindle.open(".", tools=[invite]) as app, AsyncOpenAI(base_url=url, api_key="any") as client:
        offered = await tools(app)
        agent = Agent(name="helper", model=OpenAIResponsesModel("any", client), tools=list(offered))
        if step == "begin":
            first = await Runner.run(agent, "go", run_config=quiet)
            open("state.json", "w").write(first.to_state().to_string())
        else:
            state = await RunState.from_string(agent, open("state.json").read())
            [waits] = state.get_interruptions()
            await offered.answer(state, waits, "the harbour")
            print((await Runner.run(agent, state, run_config=quiet)).final_output)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_another_process_goes_on_with_the_state(tmp_path: Path, model: ModelServer) -> None:
    (tmp_path / "spindle.toml").write_text("")
    (tmp_path / "program.py").write_text(PROCESS)
    model.feed(Turn(calls=[ToolCall("invite", {"who": "ann"})]), lambda it: it.tool_answers[0].text)
    said = ""
    for step in ("begin", "end"):
        command = [sys.executable, "program.py", step, model.openai_url]
        done = await asyncio.to_thread(
            subprocess.run, command, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        said = done.stdout
    assert said.strip() == "ann comes to the harbour"


async def test_guardrails_look_at_a_call_before_it_is_made(model: ModelServer, scripted: Model) -> None:
    till = Till()

    @tool_input_guardrail
    def never(data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.reject_content("not with me")

    async with workspace(till.tools()) as app:
        offered = await tools(app, "look")
        offered[0].tool_input_guardrails = [never]
        model.feed(Turn(calls=[ToolCall("look")]), "done")
        await run(agent_of(scripted, offered))
        assert till.looked == 0
        assert model.requests[1].tool_answers[0].text == "not with me"


async def test_each_run_acts_for_its_own_principal(model: ModelServer, scripted: Model) -> None:
    def whoami(context: spindle.Context) -> str:
        """Say for whom this is done."""
        return context.principal.id

    def visible(principal: spindle.Principal, name: str) -> bool:
        return principal.id != "bob" or name != "add"

    async with workspace([whoami, add], visible=visible) as app:
        offered = await tools(app, principal=lambda it: spindle.Principal(it.context))
        agent = agent_of(scripted, offered)
        for name, shown in (("ann", ["add", "whoami"]), ("bob", ["whoami"])):
            model.feed(Turn(calls=[ToolCall("whoami")]), lambda request: request.tool_answers[-1].text)
            assert (await run(agent, context=name)).final_output == name
            assert sorted(model.requests[-1].tool_names) == shown


async def test_nobody_takes_over_a_call_of_another_user(model: ModelServer, scripted: Model) -> None:
    def invite(who: str, context: spindle.Context) -> str:
        """Invite somebody to lunch."""
        return f"{who} comes to {context.ask('Where do we eat?')}"

    async with workspace([invite]) as app:
        offered = await tools(app, principal=lambda it: spindle.Principal(it.context))
        agent = agent_of(scripted, offered)
        model.feed(Turn(calls=[ToolCall("invite", {"who": "cat"}, id="c1")]))
        await run(agent, context="ann")
        model.feed(Turn(calls=[ToolCall("invite", {"who": "cat"}, id="c1")]), "done")
        assert (await run(agent, context="bob")).final_output == "done"
        assert "another user's" in model.requests[-1].tool_answers[0].text


# --- into the catalog


async def test_tools_of_the_sdk_in_a_catalog() -> None:
    @function_tool
    def area(width: float, height: float = 1.0) -> float:
        """Multiply two lengths.

        Args:
            width: How wide it is.
        """
        return width * height

    async def draw(context: object, arguments: str) -> list[Any]:
        return [ToolOutputImage(image_url=f"data:image/png;base64,{PIXEL}"), "a line"]

    drawn = FunctionTool("draw", "Draw.", {"type": "object", "properties": {}}, draw)
    async with workspace([from_openai_agents(area), from_openai_agents(drawn)]) as app:
        shown = await app.show("area")
        assert shown.description.startswith("Multiply")
        assert shown.input_schema["properties"]["width"]["description"] == "How wide it is."
        assert (await app.call("area", width=3, height=2)).text == "6.0"
        picture, line = (await app.call("draw")).content
        assert (picture.type, picture.data, line.text) == ("image", PIXEL, "a line")
    with pytest.raises(TypeError, match="not a function tool of the Agents SDK"):
        from_openai_agents(add)  # type: ignore[arg-type]
