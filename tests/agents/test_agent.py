"""An agent's work on a task, by each of the APIs that its model may speak."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from pydantic import BaseModel, field_validator
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model
from pydantic_ai.models.function import FunctionModel

from spindle import Agent, AgentResult
from spindle.errors import (
    AuthError,
    ConfigurationError,
    ConnectionFailedError,
    ModelError,
    NotFoundError,
    PermissionDeniedError,
    ServerError,
    SpindleError,
)
from spindle.testing import (
    Dropped,
    Failure,
    Gate,
    ModelRequest,
    ModelServer,
    ToolCall,
    Turn,
    Usage,
    workspace,
)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def broken() -> str:
    """Always fails."""
    raise ValueError("out of order")


async def answer(agent: Agent, task: str = "go", **options: Any) -> AgentResult:
    outcome = await agent.run(task, **options)
    assert isinstance(outcome, AgentResult)
    return outcome


TWO_CALLS = Turn("let me see", [ToolCall("add", {"a": 1, "b": 2}), ToolCall("add", {"a": 3, "b": 4})])


async def test_an_agent_calls_tools_side_by_side_and_answers(server: ModelServer, any_model: Model) -> None:
    server.feed(TWO_CALLS, Turn("3 and 7", usage=Usage(30, 3)))
    async with workspace([add]) as app:
        done = await answer(Agent(app, any_model, instructions="be brief"), "add them")
    assert (done.output, done.ended_by, done.steps) == ("3 and 7", "answer", 2)
    assert (done.usage.input_tokens, done.usage.output_tokens, done.usage.requests) == (40, 8, 2)
    assert done.calls == [{"tool": "add", "step": 1, "outcome": "ok"}] * 2
    first, last = server.requests
    assert [item.text for item in last.tool_answers] == ["3", "7"]
    assert (first.prompt, first.tool_names) == ("add them", ["add", "ask_user"])
    assert "be brief" in first.instructions


async def test_text_and_thoughts_are_streamed_as_they_come(server: ModelServer, any_model: Model) -> None:
    server.feed(Turn(thought="hm well", calls=TWO_CALLS.calls), "one two three")
    async with workspace([add]) as app:
        events = [event async for event in Agent(app, any_model).stream("add them")]
    assert all(request.stream for request in server.requests)
    kinds = [event.kind for event in events]
    assert kinds[0] == "start"
    assert kinds[-1] == "end"
    pieces = [event.text or "" for event in events if event.kind == "text"]
    assert len(pieces) > 1
    assert "".join(pieces) == "one two three"
    assert "".join(event.text or "" for event in events if event.kind == "thought") == "hm well"
    calls = [event for event in events if event.kind == "tool_call"]
    assert [(event.tool, event.arguments) for event in calls] == [
        ("add", {"a": 1, "b": 2}),
        ("add", {"a": 3, "b": 4}),
    ]
    results = {event.call_id: event for event in events if event.kind == "tool_result"}
    assert {event.call_id for event in calls} == set(results)
    assert sorted(event.text or "" for event in results.values()) == ["3", "7"]
    assert events[-1].result is not None
    assert events[-1].result["text"] == "one two three"


class City(BaseModel):
    name: str
    people: int

    @field_validator("people")
    @classmethod
    def is_sensible(cls, value: int) -> int:
        if value < 1:
            raise ValueError("nobody lives there")
        return value


async def test_an_answer_of_a_type_is_repaired_from_what_is_wrong_with_it(
    server: ModelServer, any_model: Model
) -> None:
    server.feed(
        Turn(calls=[ToolCall("final_answer", {"name": "Paris"})]),
        Turn(calls=[ToolCall("final_answer", {"name": "Paris", "people": 0})]),
        "It is Paris.",
        Turn(calls=[ToolCall("final_answer", {"name": "Paris", "people": 2})]),
    )
    async with workspace([add]) as app:
        done = await answer(Agent(app, any_model), output_type=City)
    assert done.output == City(name="Paris", people=2)
    told = [request.tool_answers[-1].text for request in server.requests[1:]]
    assert "people" in told[0]
    assert "nobody lives there" in told[1]
    assert "final_answer" in str(server.requests[3].messages[-1])


async def test_an_answer_can_be_of_any_type_that_pydantic_knows(server: ModelServer, model: Model) -> None:
    server.feed(Turn(calls=[ToolCall("final_answer", {"answer": [1, 2]})]))
    async with workspace() as app:
        assert (await answer(Agent(app, model), output_type=list[int])).output == [1, 2]


async def test_what_is_wrong_with_calls_goes_back_to_the_model(server: ModelServer, any_model: Model) -> None:
    server.feed(
        Turn(calls=[ToolCall("add", {"a": "one"})]),
        Turn(calls=[ToolCall("ad", {"a": 1, "b": 2})]),
        Turn(calls=[ToolCall("add", '{"a": 1, "b": ')]),
        Turn(calls=[ToolCall("broken", {})]),
        "that was hard",
    )
    async with workspace([add, broken]) as app:
        done = await answer(Agent(app, any_model))
    told = [request.tool_answers[-1].text for request in server.requests[1:]]
    assert "a" in told[0]
    assert "b" in told[0]
    assert "did you mean 'add'?" in told[1]
    assert "not valid JSON" in told[2]
    assert "out of order" in told[3]
    assert [call["outcome"] for call in done.calls] == ["invalid_arguments", "tool"]


@pytest.mark.parametrize(
    ("turn", "problem"),
    [
        (Turn(), "gave no answer, 3 times"),
        (Turn("half a sen", stop="length"), "cut off at the limit of tokens, 3 times"),
        (Turn(calls=[ToolCall("nothing", {})]), "only calls that cannot be made, 3 times"),
        (Turn(calls=[ToolCall("add", "{")]), "only calls that cannot be made, 3 times"),
    ],
)
async def test_answers_that_cannot_be_used_end_in_an_error_after_some_repairs(
    server: ModelServer, any_model: Model, turn: Turn, problem: str
) -> None:
    server.feed(*[turn] * 9)
    async with workspace([add]) as app:
        with pytest.raises(ModelError, match=problem):
            await Agent(app, any_model, limits={"repairs": 2}).run("go")
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("turn", "problem"),
    [
        (Turn("I will not do that", stop="refusal"), "refused|filter"),
        (Turn(stop="content_filter"), "filter|refused"),
    ],
)
async def test_refusals_are_errors_at_once(
    server: ModelServer, any_model: Model, turn: Turn, problem: str
) -> None:
    server.feed(turn)
    async with workspace() as app:
        with pytest.raises(ModelError, match=problem):
            await Agent(app, any_model).run("go")


async def test_a_cut_off_answer_is_repaired(server: ModelServer, any_model: Model) -> None:
    server.feed(Turn("half a sen", [ToolCall("add", '{"a": 1')], stop="length"), "short")
    async with workspace([add]) as app:
        assert (await answer(Agent(app, any_model))).output == "short"


async def test_a_model_that_repeats_itself_is_told_and_then_stopped(
    server: ModelServer, model: Model
) -> None:
    made: list[int] = []

    def look() -> str:
        made.append(1)
        return "nothing new"

    server.feed(*[Turn(calls=[ToolCall("look", {})])] * 20)
    async with workspace([look]) as app:
        with pytest.raises(ModelError, match="the same call 5 times in a row"):
            await Agent(app, model, limits={"repeats": 2}).run("go")
    assert len(made) == 2
    assert "It was not made again" in server.requests[3].tool_answers[-1].text


async def test_a_tool_that_keeps_failing_is_taken_away(server: ModelServer, model: Model) -> None:
    calls = Turn(calls=[ToolCall("broken", {}), ToolCall("add", {"a": 1, "b": 1})])
    server.feed(calls, calls, calls, "never mind")
    async with workspace([add, broken]) as app:
        await answer(Agent(app, model, limits={"failures": 2}))
    assert "broken" in server.requests[1].tool_names
    assert "broken" not in server.requests[2].tool_names
    assert "failed 2 times in a row" in server.requests[2].tool_answers[-2].text
    assert "kept failing" in server.requests[3].tool_answers[-2].text


async def test_a_tool_that_reports_a_lacking_permission_fails_like_any_other(
    server: ModelServer, model: Model
) -> None:
    def guarded() -> str:
        raise PermissionDeniedError("not with this account", status=403)

    calls = Turn(calls=[ToolCall("guarded", {}), ToolCall("add", {"a": 1, "b": 1})])
    server.feed(calls, calls, calls, "never mind")
    async with workspace([add, guarded]) as app:
        result = await answer(Agent(app, model, limits={"failures": 2}))
    assert "not with this account" in server.requests[1].tool_answers[-2].text
    assert "guarded" not in server.requests[2].tool_names
    assert [made["outcome"] for made in result.calls if made["tool"] == "guarded"][:2] == ["permission"] * 2


async def test_errors_of_the_provider_are_errors_of_spindle(server: ModelServer, any_model: Model) -> None:
    async with workspace() as app:
        server.feed(Failure(401, "wrong key"))
        with pytest.raises(AuthError, match="wrong key") as refused:
            await Agent(app, any_model).run("go")
        assert refused.value.hint == "check the provider's key in the environment"
        server.feed(Failure(404, "no such model"))
        with pytest.raises(NotFoundError, match="no such model") as unknown:
            await Agent(app, any_model).run("go")
        assert unknown.value.hint == "check the name of the model"
        server.feed(Failure(500, "fell over"))
        with pytest.raises(SpindleError, match="fell over"):
            await Agent(app, any_model).run("go")


async def test_an_answer_whose_connection_breaks_is_asked_for_again(
    server: ModelServer, any_model: Model
) -> None:
    server.feed(Dropped("some words"), "whole")
    async with workspace() as app:
        assert (await answer(Agent(app, any_model))).output == "whole"
        server.feed(*[Dropped("some words")] * 3)
        with pytest.raises((ConnectionFailedError, SpindleError)):
            await Agent(app, any_model).run("go")
    assert server.left == 0


async def test_a_result_that_is_too_long_is_cut_and_read_on(server: ModelServer, any_model: Model) -> None:
    def long() -> str:
        return "x" * 900 + "the end"

    def read_on(request: ModelRequest) -> Turn:
        said = request.tool_answers[-1].text
        reference = said.split('reference="')[1].split('"')[0]
        return Turn(calls=[ToolCall("read_more", {"reference": reference, "start": 900})])

    server.feed(Turn(calls=[ToolCall("long", {})]), read_on, "seen")
    async with workspace([long]) as app:
        await answer(Agent(app, any_model, limits={"result": 100}))
    assert "read_more" not in server.requests[0].tool_names
    assert server.requests[1].tool_answers[0].text.startswith("x" * 100 + "\n[cut:")
    assert server.requests[2].tool_answers[-1].text == "the end"


async def test_mistakes_in_what_an_agent_is_given_are_told_at_once(model: Model) -> None:
    async with workspace([add]) as app:
        with pytest.raises(ConfigurationError, match="no limit 'step'") as unknown:
            Agent(app, model, limits={"step": 1})
        assert unknown.value.hint == "did you mean 'steps'?"
        with pytest.raises(ConfigurationError, match="`steps` must be more than 0"):
            Agent(app, model, limits={"steps": 0})
        with pytest.raises(ConfigurationError, match="which provider's model"):
            Agent(app, "gpt-5")
        with pytest.raises(ConfigurationError, match="needs an open workspace, not Catalog"):
            Agent(app.catalog, model)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="list of patterns"):
            Agent(app, model, tools="add")
        with pytest.raises(ConfigurationError, match="needs a task"):
            await Agent(app, model).run("")
        with pytest.raises(ConfigurationError, match="`parallel` must be at least 1"):
            await Agent(app, model).run("go", parallel=0)
        with pytest.raises(SpindleError, match="no tool matches 'ad'") as unfit:
            await Agent(app, model, tools=["ad"]).run("go")
        assert unfit.value.hint == "did you mean 'add'?"


async def test_a_missing_key_or_provider_is_said_clearly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    async with workspace() as app:
        with pytest.raises(ConfigurationError, match="OPENAI_API_KEY is not set"):
            await Agent(app, "openai:gpt-5").run("go")
        with pytest.raises(ConfigurationError, match="cannot be used") as unknown:
            await Agent(app, "opnai:gpt-5").run("go")
        assert unknown.value.hint == "did you mean 'openai:gpt-5'?"
        with pytest.raises(ConfigurationError, match="cannot be used: Unknown model") as far_off:
            await Agent(app, "my-own-provider:x").run("go")
        assert far_off.value.hint is None
        with pytest.raises(ConfigurationError, match="need a library that is not installed"):
            await Agent(app, "groq:some-model").run("go")


async def test_the_extra_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    async with workspace() as app:
        with pytest.raises(ConfigurationError, match="agents need the extra `agent`") as missing:
            Agent(app, "openai:gpt-5")
    assert missing.value.hint == 'pip install "spindle-tools[agent]"'


async def test_a_model_of_ones_own_that_fails_is_an_error(model: Model) -> None:
    def fails(_messages: object, _info: object) -> ModelResponse:
        raise RuntimeError("no such luck")

    async with workspace() as app:
        with pytest.raises(ServerError, match="failed: RuntimeError: no such luck"):
            await Agent(app, FunctionModel(fails)).run("go")


async def test_leaving_the_events_cancels_the_run(server: ModelServer, model: Model) -> None:
    gate = Gate()
    server.feed(Turn("never heard", after=gate))
    async with workspace() as app:
        events = Agent(app, model).stream("go")
        assert (await anext(events)).kind == "start"
        await gate.reached()
        await events.aclose()  # type: ignore[attr-defined]
        (run,) = await app.store.runs(limit=1)
        assert run.status == "cancelled"
    gate.open()


async def test_a_model_by_its_name_finds_its_key_in_the_environment(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    server.feed("by OpenAI", "by Anthropic")
    async with workspace() as app:
        assert (await answer(Agent(app, "openai:gpt-scripted"))).output == "by OpenAI"
        assert (await answer(Agent(app, "anthropic:claude-scripted"))).output == "by Anthropic"
