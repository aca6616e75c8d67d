"""Tools of a catalog as a toolset of pydantic-ai, and its tools in a catalog."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from anthropic import AsyncAnthropic
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, RunContext, Tool
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

import spindle
from adapters.samples import PIXEL, add
from spindle.adapters.pydantic_ai import SpindleToolset, deferred_result, from_pydantic_ai
from spindle.app import Spindle
from spindle.runs.outcomes import Finished
from spindle.testing import ModelServer, ToolCall, Turn, workspace


@pytest.fixture
async def scripted(model: ModelServer) -> AsyncIterator[Model]:
    async with AsyncAnthropic(base_url=model.anthropic_url, api_key="any", max_retries=0) as client:
        yield AnthropicModel("claude-scripted", provider=AnthropicProvider(anthropic_client=client))


async def test_an_agent_calls_tools_of_the_catalog(app: Spindle, model: ModelServer, scripted: Model) -> None:
    model.feed(
        Turn(
            calls=[
                ToolCall("add", {"a": 1, "b": 2}),
                ToolCall("time_get_current_time", {"timezone": "UTC"}),
                ToolCall("odd_name", {"config": "x", "run_manager": "y"}),
                ToolCall("picture"),
                ToolCall("broken"),
            ]
        ),
        "done",
    )
    agent = Agent(scripted, toolsets=[SpindleToolset(app)])
    assert (await agent.run("go")).output == "done"
    answers = {answer.id: answer for answer in model.requests[1].tool_answers}
    texts = {answer.id[-1]: answer.text for answer in answers.values()}
    assert texts["1"] == "3"
    assert "UTC" in texts["2"]
    assert texts["3"] == "x/y"
    assert texts["5"] == "ValueError: out of order"
    assert PIXEL in str(model.requests[1].messages)


async def test_calls_of_one_turn_are_made_at_the_same_time(
    app: Spindle, model: ModelServer, scripted: Model
) -> None:
    model.feed(Turn(calls=[ToolCall("meet", {"name": "ann"}), ToolCall("meet", {"name": "bob"})]), "done")
    await Agent(scripted, toolsets=[SpindleToolset(app, "meet")]).run("go")
    met = sorted(answer.text for answer in model.requests[1].tool_answers)
    assert met == ["ann met somebody", "bob met somebody"]


async def test_bad_arguments_are_mended_and_unknown_names_are_told(
    app: Spindle, model: ModelServer, scripted: Model
) -> None:
    model.feed(
        Turn(calls=[ToolCall("add", {"a": "one", "b": 2}), ToolCall("nonsense")]),
        Turn(calls=[ToolCall("add", {"a": 1, "b": 2})]),
        "done",
    )
    agent = Agent(scripted, toolsets=[SpindleToolset(app, max_retries=2)])
    assert (await agent.run("go")).output == "done"
    wrong, unknown = model.requests[1].tool_answers
    assert "integer" in wrong.text
    assert "nonsense" in unknown.text
    assert model.requests[2].tool_answers[-1].text == "3"


async def test_each_run_acts_for_its_own_principal(model: ModelServer, scripted: Model) -> None:
    def whoami(context: spindle.Context) -> str:
        return context.principal.id

    def visible(principal: spindle.Principal, name: str) -> bool:
        return principal.id == "ann" or name != "add"

    async with workspace([whoami, add], visible=visible) as app:
        toolset = SpindleToolset[str](app, principal=lambda context: spindle.Principal(context.deps))
        agent = Agent(scripted, deps_type=str, toolsets=[toolset])
        for name, offered in (("ann", ["add", "whoami"]), ("bob", ["whoami"])):
            model.feed(Turn(calls=[ToolCall("whoami")]), lambda request: request.tool_answers[-1].text)
            assert (await agent.run("go", deps=name)).output == name
            assert sorted(model.requests[-1].tool_names) == offered


async def test_a_call_that_waits_for_a_person_is_deferred(
    app: Spindle, model: ModelServer, scripted: Model
) -> None:
    model.feed(
        Turn(calls=[ToolCall("invite", {"who": "ann"}), ToolCall("add", {"a": 1, "b": 2})]),
        lambda request: " | ".join(sorted(answer.text for answer in request.tool_answers)),
    )
    agent = Agent(scripted, toolsets=[SpindleToolset(app)], output_type=[str, DeferredToolRequests])
    first = await agent.run("go")
    assert isinstance(first.output, DeferredToolRequests)
    [call] = first.output.calls
    [pause] = first.output.metadata[call.tool_call_id]["pauses"]
    assert pause["message"] == "Where do we eat?"
    outcome = await app.resume(pause["token"], "the harbour")
    assert isinstance(outcome, Finished)
    results = DeferredToolResults(calls={call.tool_call_id: await deferred_result(outcome)})
    done = await agent.run(message_history=first.all_messages(), deferred_tool_results=results)
    assert done.output == "3 | ann comes to the harbour"


async def test_a_refusal_after_a_pause_is_a_failure_to_the_model(
    app: Spindle, model: ModelServer, scripted: Model
) -> None:
    model.feed(Turn(calls=[ToolCall("invite", {"who": "ann"})]), "well")
    agent = Agent(scripted, toolsets=[SpindleToolset(app)], output_type=[str, DeferredToolRequests])
    first = await agent.run("go")
    assert isinstance(first.output, DeferredToolRequests)
    [call] = first.output.calls
    [pause] = first.output.metadata[call.tool_call_id]["pauses"]
    outcome = await app.resume(pause["token"], refused="not hungry")
    assert isinstance(outcome, Finished)
    results = DeferredToolResults(calls={call.tool_call_id: await deferred_result(outcome)})
    await agent.run(message_history=first.all_messages(), deferred_tool_results=results)
    assert "not hungry" in model.requests[-1].tool_answers[0].text


async def test_tools_that_come_while_the_agent_runs_are_offered(
    tmp_path: Path, model: ModelServer, scripted: Model
) -> None:
    text = "from spindle import tool\n\n@tool\ndef {0}() -> str:\n    '''New.'''\n    return '{0}'\n"
    made = workspace(files={"tools/one.py": text.format("one")})
    async with made as app:

        def write(request: object) -> Turn:
            (made.root / "tools" / "two.py").write_text(text.format("two"))
            return Turn(calls=[ToolCall("one")])

        model.feed(write, Turn(calls=[ToolCall("two")]), lambda request: request.tool_answers[-1].text)
        assert (await Agent(scripted, toolsets=[SpindleToolset(app)]).run("go")).output == "two"
    assert [sorted(request.tool_names) for request in model.requests] == [
        ["one"],
        ["one", "two"],
        ["one", "two"],
    ]


async def test_an_agent_on_another_loop_reaches_the_app(app: Spindle, model: ModelServer) -> None:
    toolset = SpindleToolset[None](app, "add")
    model.feed(Turn(calls=[ToolCall("add", {"a": 1, "b": 2})]), lambda request: request.tool_answers[0].text)

    async def elsewhere() -> str:
        async with AsyncAnthropic(base_url=model.anthropic_url, api_key="any") as client:
            theirs = AnthropicModel("claude-scripted", provider=AnthropicProvider(anthropic_client=client))
            return (await Agent(theirs, toolsets=[toolset]).run("go")).output

    assert await asyncio.to_thread(lambda: asyncio.run(elsewhere())) == "3"


def test_a_toolset_is_made_where_the_app_lives() -> None:
    with workspace([add]) as app:
        with pytest.raises(RuntimeError, match="the event loop of the workspace"):
            SpindleToolset(app)  # type: ignore[arg-type]

        async def make(inner: Spindle) -> SpindleToolset[None]:
            return SpindleToolset(inner, id="tools")

        assert app.wait(make).id == "tools"


# --- into the catalog


async def test_tools_of_pydantic_ai_in_a_catalog() -> None:
    def area(width: float, height: float = 1.0) -> float:
        """Multiply.

        Args:
            width: How wide it is.
            height: How high it is.
        """
        if width < 0:
            raise ValueError("it cannot be that narrow")
        return width * height

    async with workspace([from_pydantic_ai(Tool(area, name="size"))]) as app:
        shown = await app.show("size")
        assert shown.description.startswith("Multiply")
        assert shown.input_schema["properties"]["width"]["description"] == "How wide it is."
        assert (await app.call("size", width=3, height=2)).structured == 6.0
        assert (await app.call("size", width=-1)).is_error
        with pytest.raises(spindle.SpindleError, match="do not fit"):
            await app.call("size", width="wide")


def test_tools_that_cannot_be_taken_are_refused() -> None:
    def wants(ctx: RunContext[None], a: int) -> int:
        return a

    with pytest.raises(TypeError, match="'wants' takes a RunContext"):
        from_pydantic_ai(Tool(wants))
    with pytest.raises(TypeError, match="not a tool of pydantic-ai"):
        from_pydantic_ai(add)  # type: ignore[arg-type]
