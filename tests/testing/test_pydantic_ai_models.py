"""The scripted model behind pydantic-ai, by each of the APIs that it speaks."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent, ModelHTTPError, UnexpectedModelBehavior
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from spindle.testing import Failure, ModelServer, ToolCall, Turn, Usage


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as found:
        yield found


@pytest.fixture(params=["openai-chat", "openai-responses", "anthropic"])
async def model(request: pytest.FixtureRequest, server: ModelServer) -> AsyncIterator[Model]:
    if request.param == "anthropic":
        async with AsyncAnthropic(base_url=server.anthropic_url, api_key="any", max_retries=0) as theirs:
            yield AnthropicModel("claude-scripted", provider=AnthropicProvider(anthropic_client=theirs))
    else:
        async with AsyncOpenAI(base_url=server.openai_url, api_key="any", max_retries=0) as client:
            kind = OpenAIChatModel if request.param == "openai-chat" else OpenAIResponsesModel
            yield kind("gpt-scripted", provider=OpenAIProvider(openai_client=client))


def adding(model: Model) -> Agent[None, str]:
    agent = Agent(model, instructions="be brief")

    @agent.tool_plain
    def add(a: int, b: int) -> int:
        return a + b

    return agent


TWO_CALLS = Turn("let me see", [ToolCall("add", {"a": 1, "b": 2}), ToolCall("add", {"a": 3, "b": 4})])


async def test_an_agent_calls_tools_and_answers(server: ModelServer, model: Model) -> None:
    server.feed(TWO_CALLS, Turn("3 and 7", usage=Usage(30, 3)))
    done = await adding(model).run("add them")
    assert done.output == "3 and 7"
    assert (done.usage.input_tokens, done.usage.output_tokens, done.usage.tool_calls) == (40, 8, 2)
    last = server.requests[-1]
    assert sorted(answer.text for answer in last.tool_answers) == ["3", "7"]
    assert (last.prompt, last.tool_names) == ("add them", ["add"])
    assert "be brief" in last.instructions


async def test_the_same_streamed(server: ModelServer, model: Model) -> None:
    server.feed(Turn(calls=TWO_CALLS.calls), "one two three")
    async with adding(model).run_stream("add them") as streamed:
        pieces = [piece async for piece in streamed.stream_text(delta=True, debounce_by=None)]
    assert "".join(pieces) == "one two three"
    assert len(pieces) > 1
    assert all(request.stream for request in server.requests)


async def test_broken_arguments_come_back_as_an_answer_to_the_model(
    server: ModelServer, model: Model
) -> None:
    server.feed(Turn(calls=[ToolCall("add", '{"a": 1, "b": ')]), TWO_CALLS, "good")
    assert (await adding(model).run("add them")).output == "good"
    assert "Invalid JSON" in server.requests[1].tool_answers[0].text


async def test_an_answer_as_a_model_of_data(server: ModelServer, model: Model) -> None:
    class City(BaseModel):
        name: str

    def reply(request: object) -> Turn:
        name = server.requests[-1].tool_names[0]
        return Turn(calls=[ToolCall(name, {"name": "Paris"})])

    server.feed(reply)
    done = await Agent(model, output_type=City).run("where?")
    assert done.output == City(name="Paris")


async def test_errors_reach_the_agent(server: ModelServer, model: Model) -> None:
    server.feed(Failure(401, "wrong key"))
    with pytest.raises(ModelHTTPError, match="wrong key") as caught:
        await adding(model).run("hello")
    assert caught.value.status_code == 401
    with pytest.raises(ModelHTTPError, match="the script of this model server has ended"):
        await adding(model).run("hello")


async def test_an_answer_cut_at_the_limit_of_tokens(server: ModelServer, model: Model) -> None:
    server.feed(Turn(calls=[ToolCall("add", '{"a": 1')], stop="length"), Turn(stop="length"))
    with pytest.raises(UnexpectedModelBehavior):
        await adding(model).run("hello")
