"""Models that fail, are busy, or moved; and the last answer at a limit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai.exceptions import ModelAPIError, ModelOverloadedError, ModelRateLimitError
from pydantic_ai.models import Model
from pydantic_ai.models.function import FunctionModel

import spindle
from spindle import Agent, AgentResult
from spindle.errors import ConfigurationError, ModelError, RateLimitedError, ServerError
from spindle.testing import Failure, ModelRequest, ModelServer, ToolCall, Turn, Usage, workspace

NAMES = ["openai-chat:first", "anthropic:second"]


@pytest.fixture
def in_reach(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)


def add(a: int, b: int) -> int:
    return a + b


ADD = Turn(calls=[ToolCall("add", {"a": 1, "b": 2})])


def by_model(**answers: Any) -> Any:
    """Answers by the name of the model that is asked."""

    def reply(request: ModelRequest) -> Any:
        made = answers[request.model]
        return made(request) if callable(made) else made

    return reply


@pytest.mark.usefixtures("in_reach")
async def test_another_model_goes_on_where_one_fails_and_stays() -> None:
    def second(request: ModelRequest) -> Turn:
        return Turn("3") if request.tool_answers else ADD

    async with ModelServer(reply=by_model(first=Failure(404), second=second)) as server:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in server.environment().items():
                patch.setenv(name, value)
            async with workspace([add]) as app:
                agent = Agent(app, NAMES)
                done = await agent.run("1 + 2?")
                assert isinstance(done, AgentResult)
                events = await agent.replay(done.run_id)
    assert done.output == "3"
    assert [request.model for request in server.requests] == ["first", "second", "second"]
    (switched,) = [event.text for event in events if event.kind == "switched"]
    assert switched is not None
    assert "the model 'first' could not be asked" in switched
    assert "second goes on" in switched


@pytest.mark.usefixtures("in_reach")
async def test_what_the_last_model_says_is_the_error(server: ModelServer) -> None:
    server.feed(Failure(401), Failure(403, "not you"))
    async with workspace() as app:
        with pytest.raises(spindle.SpindleError, match="'second' could not be asked: 403: not you"):
            await Agent(app, NAMES).run("go")


@pytest.mark.usefixtures("in_reach")
async def test_a_model_that_refuses_is_not_replaced(server: ModelServer) -> None:
    server.feed(Turn("no", stop="refusal"))
    async with workspace() as app:
        with pytest.raises(ModelError, match="refused"):
            await Agent(app, NAMES).run("go")
    assert len(server.requests) == 1


@pytest.mark.usefixtures("in_reach")
async def test_the_settings_name_several(server: ModelServer, tmp_path: Path) -> None:
    (tmp_path / "spindle.toml").write_text(
        '[agent]\nmodels = ["openai-chat:first", "openai-chat:second"]\n'
        '[agent.context]\nkeep = 2\npin = ["a*"]\n'
    )
    async with spindle.open(tmp_path) as app:
        config = app.settings.agent()
    assert (config.model, config.others) == ("openai-chat:first", ("openai-chat:second",))
    assert config.context.model_dump(exclude_none=True) == {"keep": 2, "pin": ("a*",)}
    (tmp_path / "spindle.toml").write_text('[agent]\nmodel = "a:b"\nmodels = ["c:d"]\n')
    with pytest.raises(ConfigurationError, match="give either `model` or `models`"):
        async with spindle.open(tmp_path) as app:
            app.settings.agent()


async def test_models_are_all_names_or_all_objects(model: Model) -> None:
    async with workspace() as app:
        with pytest.raises(ConfigurationError, match="all are names or all are objects"):
            Agent(app, ["openai:any", model])
        with pytest.raises(ConfigurationError, match="all are names"):
            Agent(app, [])


async def test_a_busy_provider_is_asked_again_when_it_says(server: ModelServer, any_model: Model) -> None:
    server.feed(Failure(429, retry_after=0.2), Failure(503, retry_after=0.2), "done")
    began = time.monotonic()
    async with workspace() as app:
        done = await Agent(app, any_model).run("go")
    assert isinstance(done, AgentResult)
    assert done.output == "done"
    assert time.monotonic() - began >= 0.4
    assert len(server.requests) == 3


@pytest.mark.parametrize("kind", [ModelRateLimitError, ModelOverloadedError])
async def test_a_provider_that_says_within_its_answer_that_it_is_busy_is_asked_again(
    kind: type[ModelAPIError],
) -> None:
    """A stream that has begun has no status to say it with."""
    busy = kind("busy", "overloaded", retry_after=0.0, in_stream=True)
    script = [busy, None, kind("busy", "overloaded", in_stream=True)]

    async def answer(_messages: object, _info: object) -> AsyncIterator[str]:
        yield "so far "
        if (failure := script.pop(0)) is not None:
            raise failure
        yield "done"

    async with workspace() as app:
        agent = Agent(app, FunctionModel(stream_function=answer))
        done = await agent.run("go", on_event=lambda _: None, streams=True)
        assert isinstance(done, AgentResult)
        assert done.output == "so far done"
        with pytest.raises((RateLimitedError, ServerError), match="overloaded"):  # it does not say when
            await agent.run("go", on_event=lambda _: None, streams=True)
    assert script == []


async def test_nobody_waits_longer_than_for_an_answer(server: ModelServer, model: Model) -> None:
    server.feed(Failure(429, retry_after=500.0))
    async with workspace() as app:
        with pytest.raises(RateLimitedError) as raised:
            await Agent(app, model).run("go")
    assert raised.value.retry_after == 500.0
    assert len(server.requests) == 1


async def test_a_changed_address_is_taken_up(
    server: ModelServer, in_reach: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.feed("from here", "from here again")
    async with ModelServer("from there") as other, workspace() as app:
        agent = Agent(app, "openai-chat:any")
        first = await agent.run("go")
        for name, value in other.environment().items():
            monkeypatch.setenv(name, value)
        moved = await agent.run("go")
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        back = await agent.run("go")
    said = [done.output for done in (first, moved, back) if isinstance(done, AgentResult)]
    assert said == ["from here", "from there", "from here again"]


# --- the last answer


@pytest.mark.parametrize("limits", [{"steps": 1}, {"tokens": 5_000}, {"cost": 0.0001}])
async def test_at_a_limit_the_model_answers_with_what_it_has(
    server: ModelServer, any_model: Model, limits: dict[str, float]
) -> None:
    server.feed(replace(ADD, usage=Usage(5_000, 10)), "It is 3; I could not check.", "Checked.")
    (by,) = limits
    async with workspace([add]) as app:
        prices = {"gpt-scripted": (10.0, 10.0), "claude-scripted": (10.0, 10.0)}
        agent = Agent(app, any_model, limits=limits, prices=prices)
        done = await agent.run("1 + 2?")
        assert isinstance(done, AgentResult)
        more = await agent.continue_run(done.run_id, "check") if by == "steps" else None
    assert (done.ended_by, done.output, done.steps) == (by, "It is 3; I could not check.", 2)
    last = server.requests[1]
    assert last.tool_names == []
    assert last.prompt.startswith(f"The limit of {by} of this work is reached")
    assert last.tool_answers[0].text == "3"
    if more is not None:
        assert isinstance(more, AgentResult)
        assert "I could not check" in str(server.requests[2].messages)


async def test_at_the_limit_of_time_calls_that_were_not_made_are_said(
    server: ModelServer, model: Model
) -> None:
    never = asyncio.Event()

    async def wait() -> str:
        await never.wait()
        return "never"

    server.feed(Turn(calls=[ToolCall("wait")]), "It took too long.")
    async with workspace([wait]) as app:
        done = await Agent(app, model, limits={"time": 0.5}).run("go")
    assert isinstance(done, AgentResult)
    assert (done.ended_by, done.output) == ("time", "It took too long.")
    assert "was not made" in server.requests[1].tool_answers[0].text


class City(BaseModel):
    name: str


async def test_an_answer_of_a_type_at_a_limit(server: ModelServer, any_model: Model) -> None:
    server.feed(ADD, Turn(calls=[ToolCall("final_answer", {"name": "Oslo"})]), ADD, "no form")
    async with workspace([add]) as app:
        agent = Agent(app, any_model, limits={"steps": 1})
        done = await agent.run("which?", output_type=City)
        other = await agent.run("which?", output_type=City)
    assert isinstance(done, AgentResult)
    assert (done.ended_by, done.output) == ("steps", City(name="Oslo"))
    assert server.requests[1].tool_names == ["final_answer"]
    assert isinstance(other, AgentResult)
    assert (other.output, other.text) == (None, "no form")


async def test_no_last_answer_where_none_is_wanted_or_to_be_had(server: ModelServer, model: Model) -> None:
    server.feed(Turn("so far", ADD.calls), Turn("so far", ADD.calls), Failure(400))
    async with workspace([add]) as app:
        off = await Agent(app, model, limits={"steps": 1, "conclude": False}).run("go")
        assert len(server.requests) == 1
        failed = await Agent(app, model, limits={"steps": 1}).run("go")
    assert [done.output for done in (off, failed) if isinstance(done, AgentResult)] == ["so far", "so far"]
