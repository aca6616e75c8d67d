"""The scripted model through Anthropic's own client library: blocking, async and streamed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import anthropic
import pytest

from spindle.testing import Dropped, Failure, ModelServer, ToolCall, Turn, Usage

HELLO: Any = {
    "model": "claude-scripted",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "hello"}],
}


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def client(model: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[anthropic.Anthropic]:
    for name, value in model.environment().items():
        monkeypatch.setenv(name, value)
    with anthropic.Anthropic(max_retries=0) as found:
        yield found


@pytest.fixture
async def async_client(model: ModelServer) -> AsyncIterator[anthropic.AsyncAnthropic]:
    url = model.anthropic_url
    async with anthropic.AsyncAnthropic(base_url=url, api_key="any-key", max_retries=0) as found:
        yield found


def test_thoughts_text_calls_and_usage(model: ModelServer, client: anthropic.Anthropic) -> None:
    calls = [ToolCall("add", {"a": 1}), ToolCall("add", {"a": 2})]
    model.feed(Turn("let me see", calls, thought="hard one", usage=Usage(100, 20, cached_tokens=40)))
    tools = [{"name": "add", "description": "Adds.", "input_schema": {"type": "object"}}]
    message = client.messages.create(**HELLO, tools=tools, system="be brief")
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert [block.input for block in message.content[2:]] == [{"a": 1}, {"a": 2}]  # type: ignore[union-attr]
    assert message.stop_reason == "tool_use"
    usage = message.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (60, 40, 20)
    [request] = model.requests
    assert (request.api, request.instructions, request.prompt) == ("anthropic", "be brief", "hello")
    assert request.tool_names == ["add"]
    assert "x-api-key" not in request.headers


async def test_a_stream_gives_the_same_in_pieces(
    model: ModelServer, async_client: anthropic.AsyncAnthropic
) -> None:
    model.feed(Turn("let me see", [ToolCall("add", {"a": [1, 2]})], thought="hard one"))
    async with async_client.messages.stream(**HELLO) as stream:
        texts = [text async for text in stream.text_stream]
        message = await stream.get_final_message()
    assert (len(texts), "".join(texts)) == (3, "let me see")
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
    assert message.content[0].thinking == "hard one"  # type: ignore[union-attr]
    assert message.content[2].input == {"a": [1, 2]}  # type: ignore[union-attr]
    assert (message.stop_reason, message.usage.output_tokens) == ("tool_use", 5)


def test_broken_arguments_are_sent_as_they_are(model: ModelServer, client: anthropic.Anthropic) -> None:
    broken = Turn(calls=[ToolCall("add", '{"a": ')])
    model.feed(broken, broken)
    sent = ""
    for event in client.messages.create(**HELLO, stream=True):
        if event.type == "content_block_delta":
            sent += event.delta.partial_json
    assert sent == '{"a": '
    assert client.messages.create(**HELLO).content[0].input == '{"a": '  # type: ignore[union-attr]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("turn", "reason"),
    [
        (Turn("half a sen", stop="length"), "max_tokens"),
        (Turn(stop="content_filter"), "refusal"),
        (Turn("I will not", stop="refusal"), "refusal"),
        (Turn(), "end_turn"),
    ],
)
def test_other_ways_for_an_answer_to_end(
    model: ModelServer, client: anthropic.Anthropic, turn: Turn, reason: str, streamed: bool
) -> None:
    model.feed(turn)
    if streamed:
        with client.messages.stream(**HELLO) as stream:
            message = stream.get_final_message()
    else:
        message = client.messages.create(**HELLO)
    assert message.stop_reason == reason
    assert "".join(block.text for block in message.content) == turn.text  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("failure", "error", "kind"),
    [
        (Failure(401, "wrong key"), anthropic.AuthenticationError, "authentication_error"),
        (Failure(429, "slow down", retry_after=2), anthropic.RateLimitError, "rate_limit_error"),
        (Failure(500, "broken"), anthropic.InternalServerError, "api_error"),
        (Failure(529, "too many"), anthropic.APIStatusError, "overloaded_error"),
    ],
)
def test_errors_are_those_of_the_library(
    model: ModelServer,
    client: anthropic.Anthropic,
    failure: Failure,
    error: type[anthropic.APIStatusError],
    kind: str,
) -> None:
    model.feed(failure)
    with pytest.raises(error, match=failure.message) as caught:
        client.messages.create(**HELLO)
    assert caught.value.status_code == failure.status
    assert caught.value.body["error"]["type"] == kind  # type: ignore[index, call-overload]


def test_a_connection_that_breaks(model: ModelServer, client: anthropic.Anthropic) -> None:
    model.feed(Dropped("some words"), Dropped())
    got = ""
    broken = pytest.raises(Exception, match=r"(?i)connection|closed|read")
    with broken, client.messages.stream(**HELLO) as stream:
        for text in stream.text_stream:
            got += text
    assert got == "some words"
    with pytest.raises(anthropic.APIConnectionError):
        client.messages.create(**HELLO)


def test_the_library_tries_again_as_it_would_with_the_real_one(
    model: ModelServer, client: anthropic.Anthropic
) -> None:
    model.feed(Failure(529, retry_after=0.001), "at last")
    message = client.with_options(max_retries=2).messages.create(**HELLO)
    assert message.content[0].text == "at last"  # type: ignore[union-attr]


def test_models_are_listed(model: ModelServer, client: anthropic.Anthropic) -> None:
    assert "claude-scripted" in [found.id for found in client.models.list()]
    assert client.models.retrieve("any-name").display_name == "any-name"
