"""The scripted model through OpenAI's own client library: both APIs, blocking, async and streamed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import openai
import pytest

from spindle.testing import Dropped, Failure, ModelServer, ToolCall, Turn, Usage

HELLO: Any = [{"role": "user", "content": "hello"}]
ADD: Any = {"name": "add", "description": "Adds.", "parameters": {"type": "object", "properties": {}}}
CALLS = Turn("let me see", [ToolCall("add", {"a": 1}), ToolCall("add", '{"a": ')])


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def client(model: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[openai.OpenAI]:
    for name, value in model.environment().items():
        monkeypatch.setenv(name, value)
    with openai.OpenAI(max_retries=0) as found:
        yield found


@pytest.fixture
async def async_client(model: ModelServer) -> AsyncIterator[openai.AsyncOpenAI]:
    url = model.openai_url
    async with openai.AsyncOpenAI(base_url=url, api_key="any", max_retries=0) as found:
        yield found


def chat(client: openai.OpenAI, **options: Any) -> Any:
    return client.chat.completions.create(model="gpt-scripted", messages=HELLO, **options)


def test_text_and_usage(model: ModelServer, client: openai.OpenAI) -> None:
    model.feed(Turn("good day", usage=Usage(100, 20, cached_tokens=40, reasoning_tokens=7)))
    answer = chat(client)
    assert answer.choices[0].message.content == "good day"
    assert answer.choices[0].finish_reason == "stop"
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (
        100,
        20,
        120,
    )
    assert answer.usage.prompt_tokens_details.cached_tokens == 40
    assert answer.usage.completion_tokens_details.reasoning_tokens == 7


async def test_several_tool_calls_in_one_turn(model: ModelServer, async_client: openai.AsyncOpenAI) -> None:
    model.feed(CALLS)
    tools: Any = [{"type": "function", "function": ADD}]
    answer = await async_client.chat.completions.create(model="m", messages=HELLO, tools=tools)
    message = answer.choices[0].message
    assert answer.choices[0].finish_reason == "tool_calls"
    assert message.content == "let me see"
    assert message.tool_calls is not None
    found = [(call.function.name, call.function.arguments) for call in message.tool_calls]  # type: ignore[union-attr]
    assert found == [("add", '{"a":1}'), ("add", '{"a": ')]
    assert model.requests[0].tool_names == ["add"]


def test_a_stream_gives_the_same_in_pieces(model: ModelServer, client: openai.OpenAI) -> None:
    model.feed(CALLS)
    chunks = list(chat(client, stream=True, stream_options={"include_usage": True}))
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    texts = [delta.content for delta in deltas if delta.content]
    assert "".join(texts) == "let me see"
    assert len(texts) == 3
    arguments = {0: "", 1: ""}
    for delta in deltas:
        for call in delta.tool_calls or []:
            arguments[call.index] += call.function.arguments
    assert arguments == {0: '{"a":1}', 1: '{"a": '}
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "tool_calls"
    assert chunks[-1].usage.total_tokens == 15


async def test_an_async_stream_ends_well(model: ModelServer, async_client: openai.AsyncOpenAI) -> None:
    model.feed("one two", "three")
    stream = await async_client.chat.completions.create(model="m", messages=HELLO, stream=True)
    texts = [chunk.choices[0].delta.content async for chunk in stream]
    assert "".join(text for text in texts if text) == "one two"
    again = await async_client.chat.completions.create(model="m", messages=HELLO)
    assert again.choices[0].message.content == "three"


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("turn", "reason", "content", "refusal"),
    [
        (Turn("half a sen", stop="length"), "length", "half a sen", None),
        (Turn(stop="content_filter"), "content_filter", "", None),
        (Turn("I will not", stop="refusal"), "stop", None, "I will not"),
        (Turn(), "stop", "", None),
    ],
)
def test_other_ways_for_an_answer_to_end(
    model: ModelServer,
    client: openai.OpenAI,
    turn: Turn,
    reason: str,
    content: str | None,
    refusal: str | None,
    streamed: bool,
) -> None:
    model.feed(turn)
    if streamed:
        with client.chat.completions.stream(model="m", messages=HELLO) as stream:
            pieces = [event.chunk for event in _quiet(stream) if event.type == "chunk"]
        assert pieces[-1].choices[0].finish_reason == reason
        deltas = [piece.choices[0].delta for piece in pieces]
        assert "".join(delta.content or "" for delta in deltas) == (content or "")
        assert "".join(delta.refusal or "" for delta in deltas) == (refusal or "")
        return
    choice = chat(client).choices[0]
    assert (choice.finish_reason, choice.message.content, choice.message.refusal) == (
        reason,
        content,
        refusal,
    )


def _quiet(stream: Any) -> Iterator[Any]:
    """All events, up to the error that the library makes of a cut answer."""
    try:
        yield from stream
    except (openai.LengthFinishReasonError, openai.ContentFilterFinishReasonError):
        return


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (Failure(401, "wrong key"), openai.AuthenticationError),
        (Failure(429, "slow down", retry_after=2), openai.RateLimitError),
        (Failure(500, "broken"), openai.InternalServerError),
    ],
)
def test_errors_are_those_of_the_library(
    model: ModelServer, client: openai.OpenAI, failure: Failure, error: type[openai.APIStatusError]
) -> None:
    model.feed(failure, failure)
    for streamed in (False, True):
        with pytest.raises(error, match=failure.message) as caught:
            chat(client, stream=streamed)
        expected = None if failure.retry_after is None else "2"
        assert caught.value.response.headers.get("retry-after") == expected


def test_the_library_tries_again_as_it_would_with_the_real_one(
    model: ModelServer, client: openai.OpenAI
) -> None:
    model.feed(Failure(429, retry_after=0.001), Dropped(), "at last")
    assert chat(client.with_options(max_retries=2)).choices[0].message.content == "at last"
    assert len(model.requests) == 3


def test_a_connection_that_breaks(model: ModelServer, client: openai.OpenAI) -> None:
    model.feed(Dropped("some words"), Dropped())
    got = ""
    with pytest.raises(openai.APIError):  # noqa: PT012 - the words before it are the point
        for chunk in chat(client, stream=True):
            got += chunk.choices[0].delta.content or ""
    assert got == "some words"
    with pytest.raises(openai.APIConnectionError):
        chat(client)


def test_models_are_listed(model: ModelServer, client: openai.OpenAI) -> None:
    assert "gpt-scripted" in [found.id for found in client.models.list()]
    assert client.models.retrieve("any-name").id == "any-name"


# --- the Responses API


def respond(client: openai.OpenAI, **options: Any) -> Any:
    return client.responses.create(**{"model": "gpt-scripted", "input": HELLO, **options})


def test_a_response_with_thoughts_text_and_calls(model: ModelServer, client: openai.OpenAI) -> None:
    model.feed(Turn("let me see", CALLS.calls, thought="hard one", usage=Usage(3, 4)))
    response = respond(client, tools=[{"type": "function", **ADD}], instructions="be brief")
    assert [item.type for item in response.output] == [
        "reasoning",
        "message",
        "function_call",
        "function_call",
    ]
    assert response.output_text == "let me see"
    assert response.output[0].summary[0].text == "hard one"
    assert [call.arguments for call in response.output[2:]] == ['{"a":1}', '{"a": ']
    assert (response.status, response.usage.total_tokens) == ("completed", 7)
    assert model.requests[0].instructions == "be brief"
    assert model.requests[0].tool_names == ["add"]


async def test_a_streamed_response_is_the_same(model: ModelServer, async_client: openai.AsyncOpenAI) -> None:
    model.feed(Turn("let me see", CALLS.calls[:1], thought="hard one"))
    async with async_client.responses.stream(model="m", input="hello") as stream:
        events = [event async for event in stream]
        response = await stream.get_final_response()
    kinds = [event.type for event in events]
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    assert kinds.count("response.output_text.delta") == 3
    assert "response.reasoning_summary_text.delta" in kinds
    assert "response.function_call_arguments.done" in kinds
    assert [getattr(event, "sequence_number", None) for event in events] == list(range(len(events)))
    assert response.output_text == "let me see"
    assert json.loads(response.output[2].arguments) == {"a": 1}  # type: ignore[union-attr]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("turn", "status", "reason"),
    [
        (Turn("half", stop="length"), "incomplete", "max_output_tokens"),
        (Turn(stop="content_filter"), "incomplete", "content_filter"),
        (Turn("no", stop="refusal"), "completed", None),
        (Turn(), "completed", None),
    ],
)
def test_other_ways_for_a_response_to_end(
    model: ModelServer, client: openai.OpenAI, turn: Turn, status: str, reason: str | None, streamed: bool
) -> None:
    model.feed(turn)
    response = list(respond(client, stream=True))[-1].response if streamed else respond(client)
    assert response.status == status
    assert getattr(response.incomplete_details, "reason", None) == reason
    if turn.stop == "refusal":
        assert response.output[0].content[0].refusal == "no"
    else:
        assert response.output_text == turn.text


def test_a_conversation_goes_on_by_the_id_of_a_response(model: ModelServer, client: openai.OpenAI) -> None:
    model.feed(CALLS, "done")
    first = respond(client, input="add")
    outputs = [
        {"type": "function_call_output", "call_id": item.call_id, "output": "3"}
        for item in first.output
        if item.type == "function_call"
    ]
    second = respond(client, input=outputs, previous_response_id=first.id)
    assert second.output_text == "done"
    assert model.requests[1].prompt == "add"
    assert [answer.text for answer in model.requests[1].tool_answers] == ["3", "3"]


def test_errors_of_the_responses_api(model: ModelServer, client: openai.OpenAI) -> None:
    model.feed(Failure(401, "wrong key"), Dropped("a few"))
    with pytest.raises(openai.AuthenticationError, match="wrong key"):
        respond(client)
    with pytest.raises(openai.APIError):
        list(respond(client, stream=True))
