"""Tools of a catalog through OpenAI's client library, both of its APIs, against the scripted model."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest

import spindle
from adapters.samples import PIXEL, add, invite
from servers.http_server import HttpServer
from servers.running import program
from spindle.adapters.dispatch import CallPaused
from spindle.adapters.openai import OpenAIDispatched, tools
from spindle.app import Spindle
from spindle.calls.framing import unframed
from spindle.testing import ModelServer, ToolCall, Turn, workspace

NOON = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}


@pytest.fixture
async def client(model: ModelServer) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=model.openai_url, api_key="any", max_retries=0) as found:
        yield found


def chat_calls(*calls: ToolCall) -> list[Any]:
    return [
        {
            "id": call.id or f"c{index}",
            "type": "function",
            "function": {"name": call.name, "arguments": call.written},
        }
        for index, call in enumerate(calls)
    ]


async def contents(app: Spindle, *calls: ToolCall, **options: Any) -> list[str]:
    box = await tools(app, **options)
    done = await box.dispatch(chat_calls(*calls))
    return [unframed(message["content"]) for message in done.messages]


async def test_a_conversation_by_chat_completions(
    app: Spindle, model: ModelServer, client: openai.AsyncOpenAI
) -> None:
    box = await tools(app)
    model.feed(
        Turn(calls=[ToolCall("add", {"a": 1, "b": 2}), ToolCall("time_convert_time", NOON)]),
        lambda request: " | ".join(answer.text for answer in request.tool_answers),
    )
    messages: list[Any] = [{"role": "user", "content": "go"}]
    first = await client.chat.completions.create(model="m", messages=messages, tools=box.chat)
    done = await box.dispatch(first)
    messages += [first.choices[0].message, *done.messages]
    last = await client.chat.completions.create(model="m", messages=messages, tools=box.chat)
    text = last.choices[0].message.content or ""
    assert text.startswith("3 | ")
    assert "21:00" in text
    sent = {tool["function"]["name"]: tool["function"] for tool in model.requests[0].tools}
    assert sent["time_convert_time"]["parameters"] == (await app.show("time.convert_time")).input_schema
    assert sent["add"]["description"] == "Add two numbers."


async def test_a_conversation_by_the_responses_api_streamed_with_a_picture(
    app: Spindle, model: ModelServer, client: openai.AsyncOpenAI
) -> None:
    box = await tools(app)
    model.feed(Turn(calls=[ToolCall("picture"), ToolCall("broken")], thought="hm"), "I see.")
    items: list[Any] = [{"role": "user", "content": "go"}]
    async with client.responses.stream(model="m", input=items, tools=box.responses) as stream:
        first = await stream.get_final_response()
    items += [*first.output, *(await box.dispatch(first)).messages]
    last = await client.responses.create(model="m", input=items, tools=box.responses)
    assert last.output_text == "I see."
    seen, failed = model.requests[1].tool_answers
    assert seen.text == "look:"
    assert seen.content[1]["image_url"] == f"data:image/png;base64,{PIXEL}"
    assert failed.text == "Error:\nValueError: out of order"
    assert all(tool["strict"] is False for tool in model.requests[0].tools)


async def test_calls_of_one_turn_are_made_at_the_same_time(app: Spindle) -> None:
    met = await contents(app, ToolCall("meet", {"name": "ann"}), ToolCall("meet", {"name": "bob"}))
    assert met == ["ann met somebody", "bob met somebody"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (ToolCall("add", '{"a": 1, '), "the arguments are not valid JSON: "),
        (ToolCall("add", "[1, 2]"), "the arguments must be a JSON object, not array"),
        (ToolCall("add", {"a": "one", "b": 2}), '"one" is not of type "integer"'),
        (ToolCall("add", {"a": 1}), "b"),
        (ToolCall("ad", {}), "there is no tool 'ad'\nhint: did you mean 'add'?"),
        (ToolCall("nonsense", {}), "hint: there are: add, "),
        (ToolCall("broken"), "ValueError: out of order"),
        (ToolCall("time_get_current_time", {"timezone": "Nowhere/Land"}), "Nowhere/Land"),
    ],
)
async def test_what_goes_wrong_is_an_answer_that_the_model_can_read(
    app: Spindle, call: ToolCall, said: str
) -> None:
    [text] = await contents(app, call)
    assert text.startswith("Error:\n")
    assert said in text


async def test_arguments_that_an_api_would_refuse_by_name_come_back_under_their_own() -> None:
    @spindle.tool(
        input_schema={"type": "object", "properties": {"filter[name]": {"type": "array"}, "a": True}}
    )
    def find(**arguments: Any) -> dict[str, Any]:
        return arguments

    async with workspace([find]) as app:
        (sent,) = (await tools(app)).chat
        assert sent["function"]["parameters"]["properties"] == {
            "filter_name_": {"type": "array", "items": {}},
            "a": {},
        }
        assert await contents(app, ToolCall("find", {"filter_name_": ["x"], "a": 1})) == [
            '{"filter[name]":["x"],"a":1}'
        ]
        [text] = await contents(app, ToolCall("find", {"filter_name_": 5}))
        assert "filter[name]: 5 is not of type" in text


async def test_no_arguments_at_all_are_none_and_a_picture_is_words(app: Spindle) -> None:
    assert await contents(app, ToolCall("picture", "")) == [
        "look:\n[a picture, image/png, which cannot be shown here]"
    ]


async def test_names_are_safe_and_lead_back_by_a_map(app: Spindle) -> None:
    box = await tools(app)
    assert box.names["odd_name"] == "odd.name"
    assert box.names["time_get_current_time"] == "time.get_current_time"
    assert "odd_name" in box
    assert "odd.name" not in box
    assert sorted(box) == sorted(box.names)
    assert len(box) == 9
    assert await contents(app, ToolCall("odd_name", {"config": "x"})) == ["x/"]


async def test_tools_are_chosen_by_name_pattern_source_and_tag(app: Spindle) -> None:
    assert sorted((await tools(app, "add", "time.get*")).names.values()) == ["add", "time.get_current_time"]
    assert sorted(await tools(app, source="time")) == ["time_convert_time", "time_get_current_time"]
    assert list(await tools(app, tag="none-such")) == []
    assert "is no tool 'broken'" in (await contents(app, ToolCall("broken"), source="time"))[0]


async def test_what_was_mistyped_is_told_with_a_suggestion(app: Spindle) -> None:
    with pytest.raises(spindle.SpindleError, match="no tool matches 'ad'") as caught:
        await tools(app, "ad")
    assert caught.value.hint == "did you mean 'add'?"
    with pytest.raises(spindle.SpindleError, match="there is no source 'tim'") as caught:
        await tools(app, source="tim")
    assert caught.value.hint == "did you mean 'time'?"


async def test_calls_are_made_for_the_principal_and_hidden_tools_are_not_offered() -> None:
    def whoami(context: spindle.Context) -> str:
        return context.principal.id

    def visible(principal: spindle.Principal, name: str) -> bool:
        return principal.id == "ann" or name != "add"

    async with workspace([whoami, add], visible=visible) as app:
        for name, count in (("ann", 2), ("bob", 1)):
            options = spindle.CallOptions(principal=spindle.Principal(name))
            box = await tools(app, options=options)
            assert len(box) == count
            assert await contents(app, ToolCall("whoami"), options=options) == [name]


async def test_a_source_that_cannot_be_asked_does_not_take_the_others_with_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gone = {"command": ["/nowhere/at-all"]}
    async with workspace([add], sources={"gone": gone}) as app:
        with caplog.at_level(logging.WARNING, "spindle"):
            assert list(await tools(app)) == ["add"]
        assert "gone: its tools are not offered" in caplog.text
        with pytest.raises(spindle.SpindleError, match="gone could not be asked for its tools"):
            await tools(app, source="gone")
        with pytest.raises(spindle.SpindleError) as caught:
            await tools(app, "gone.*")
        assert "gone: " in (caught.value.hint or "")


async def test_a_pause_is_not_swallowed_and_goes_on_in_another_process(tmp_path: Path) -> None:
    settings = {"store": str(tmp_path / "state.db")}
    made: list[str] = []

    def note(text: str) -> str:
        made.append(text)
        return text

    calls = chat_calls(ToolCall("note", {"text": "once"}), ToolCall("invite", {"who": "ann"}))
    async with workspace([invite, note], settings=settings) as app:
        done = await (await tools(app)).dispatch(calls)
        with pytest.raises(CallPaused, match=r"invite waits for a person: Where do we eat\?") as caught:
            _ = done.messages
        assert caught.value.kind == "input"
        assert caught.value.calls[0].id == "c1"
        token = done.paused["c1"].pauses[0].token
        kept = json.loads(json.dumps(done.to_dict()))

    async with workspace([invite, note], settings=settings) as app:
        restored = OpenAIDispatched.from_dict(kept)
        [pause] = await app.pauses(run=restored.paused["c1"].run_id)
        assert pause.token == token
        with pytest.raises(KeyError, match="the call 'c9' is not paused; paused are: c1"):
            await restored.finish("c9", await app.resume(token, "the harbour"))
        await restored.finish("c1", await app.resume(restored.paused["c1"].run_id))
        told = [unframed(message["content"]) for message in restored.messages]
        assert told == ["once", "ann comes to the harbour"]
    assert made == ["once"]


async def test_an_error_after_a_pause_is_an_answer_too(app: Spindle) -> None:
    done = await (await tools(app)).dispatch(chat_calls(ToolCall("invite", {"who": "ann"})))
    await done.finish("c0", spindle.SpindleError("the kitchen is closed", hint="come back"))
    told = unframed(done.messages[0]["content"])
    assert told == "Error:\nthe kitchen is closed\nhint: come back"


async def test_what_is_no_answer_of_a_model_is_refused(app: Spindle) -> None:
    box = await tools(app)
    with pytest.raises(TypeError, match="neither a response of a model API nor a list of calls"):
        await box.dispatch(7)
    assert (await box.dispatch({"choices": [{"message": {"content": "no calls"}}]})).messages == []


def test_the_same_for_code_that_blocks() -> None:
    with (
        workspace([add]) as app,
        ModelServer(Turn(calls=[ToolCall("add", {"a": 1, "b": 2})])) as model,
        openai.OpenAI(base_url=model.openai_url, api_key="any") as client,
    ):
        box = app.wait(lambda s: tools(s))
        answer = client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "go"}], tools=box.chat
        )
        assert unframed(box.dispatch_blocking(answer).messages[0]["content"]) == "3"
    with pytest.raises(spindle.SpindleError, match="this Spindle was closed"):
        box.dispatch_blocking(answer)


async def test_blocking_where_the_app_lives_is_refused_and_other_loops_are_served(app: Spindle) -> None:
    box = await tools(app)
    calls = chat_calls(ToolCall("add", {"a": 1, "b": 2}))
    with pytest.raises(RuntimeError, match=r"would block the event loop .* use `await dispatch"):
        box.dispatch_blocking(calls)
    done = await asyncio.to_thread(lambda: asyncio.run(box.dispatch(calls)))
    assert unframed(done.messages[0]["content"]) == "3"


@pytest.mark.npm
async def test_a_server_from_npm_with_a_picture_of_its_own() -> None:
    everything = {"command": [program("mcp-server-everything"), "stdio"]}
    async with workspace(sources={"all": everything}) as app:
        box = await tools(app, source="all")
        name = next(name for name in box if "tiny" in name.lower())
        call = {"type": "function_call", "call_id": "c1", "name": name, "arguments": "{}"}
        [message] = (await box.dispatch([call])).messages
        images = [part for part in message["output"] if part["type"] == "input_image"]
        assert images[0]["image_url"].startswith("data:image/png;base64,")


async def test_a_credential_that_its_server_repeats_is_in_nothing_that_a_model_gets() -> None:
    token = "t0ken-of-the-bank-7"
    async with HttpServer() as bank:
        bank.tools = [
            {"name": name, "description": f"Wants {token}.", "inputSchema": {"type": "object"}}
            for name in ("echo", "big")
        ]
        bank.answer_with("echo", {"content": [{"type": "text", "text": f"You are {token}."}]})
        bank.refuse_with("big", {"code": -32000, "message": f"no {token}"})
        sources = {"bank": {"url": bank.url, "auth": {"type": "bearer", "token": token}}}
        async with workspace(sources=sources) as app:
            box = await tools(app)
            assert [offered["function"]["description"] for offered in box.chat] == ["Wants •••."] * 2
            said = await contents(app, ToolCall("bank_echo"), ToolCall("bank_big"))
        assert (bank.calls("echo"), bank.calls("big")) == (1, 1)
    assert said[0] == "You are •••."
    assert token not in said[1]
