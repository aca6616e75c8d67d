"""Tools of a catalog through Anthropic's client library, against the scripted model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anthropic
import pytest

import spindle
from adapters.samples import PIXEL
from spindle.adapters.anthropic import tools
from spindle.adapters.dispatch import CallPaused
from spindle.app import Spindle
from spindle.calls.content import MAX_PICTURE
from spindle.calls.framing import unframed
from spindle.testing import ModelServer, ToolCall, Turn, workspace


def uses(*calls: ToolCall) -> list[Any]:
    return [
        {"type": "tool_use", "id": f"c{index}", "name": call.name, "input": call.arguments}
        for index, call in enumerate(calls)
    ]


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_conversation_with_pictures_and_errors(
    app: Spindle, model: ModelServer, streamed: bool
) -> None:
    box = await tools(app)
    calls = [
        ToolCall("picture"),
        ToolCall("broken"),
        ToolCall("time_get_current_time", {"timezone": "UTC"}),
        ToolCall("add", {"a": "one"}),
    ]
    model.feed(Turn("let me see", calls, thought="hm"), "I see.")
    ask: Any = {"model": "claude-scripted", "max_tokens": 100, "tools": box.definitions}
    messages: list[Any] = [{"role": "user", "content": "go"}]
    async with anthropic.AsyncAnthropic(base_url=model.anthropic_url, api_key="any") as client:
        if streamed:
            async with client.messages.stream(messages=messages, **ask) as stream:
                first = await stream.get_final_message()
        else:
            first = await client.messages.create(messages=messages, **ask)
        done = await box.dispatch(first)
        messages += [{"role": "assistant", "content": first.content}, *done.messages]
        last = await client.messages.create(messages=messages, **ask)
    assert last.content[0].text == "I see."  # type: ignore[union-attr]
    seen, failed, clock, wrong = model.requests[1].tool_answers
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    assert seen.text == "look:"
    assert seen.content[1] == {"type": "image", "source": source}
    assert (seen.is_error, failed.is_error, clock.is_error, wrong.is_error) == (False, True, False, True)
    assert failed.text == "ValueError: out of order"
    assert "UTC" in clock.text
    assert "integer" in wrong.text
    sent = {tool["name"]: tool["input_schema"] for tool in model.requests[0].tools}
    assert sent["time_get_current_time"] == (await app.show("time.get_current_time")).input_schema


async def test_all_answers_are_in_one_message_and_broken_arguments_are_one(app: Spindle) -> None:
    done = await (await tools(app)).dispatch(
        uses(ToolCall("add", {"a": 1, "b": 2}), ToolCall("add", '{"a": '), ToolCall("nonsense"))
    )
    [message] = done.messages
    assert message["role"] == "user"
    good, bad, unknown = message["content"]
    assert (good["type"], good["tool_use_id"], "is_error" in good) == ("tool_result", "c0", False)
    assert [unframed(part["text"]) for part in good["content"]] == ["3"]
    assert bad["is_error"] is True
    assert "not valid JSON" in bad["content"][0]["text"]
    assert "there is no tool 'nonsense'" in unknown["content"][0]["text"]


async def test_a_pause_is_not_swallowed(app: Spindle) -> None:
    done = await (await tools(app)).dispatch(
        uses(ToolCall("invite", {"who": "ann"}), ToolCall("add", {"a": 1, "b": 2}))
    )
    with pytest.raises(CallPaused):
        _ = done.messages
    paused = done.paused["c0"]
    await done.finish("c0", await app.resume(paused.pauses[0].token, "the harbour"))
    [message] = done.messages
    told = [unframed(block["content"][0]["text"]) for block in message["content"]]
    assert told == ["ann comes to the harbour", "3"]


async def test_a_run_that_pauses_again_goes_on_waiting(app: Spindle) -> None:
    async def two(context: spindle.Context) -> str:
        return f"{context.ask('first?')} and {context.ask('second?')}"

    async with workspace([two]) as app:
        done = await (await tools(app)).dispatch(uses(ToolCall("two")))
        for answer in ("this", "that"):
            await done.finish("c0", await app.resume(done.paused["c0"].pauses[0].token, answer))
        assert unframed(done.messages[0]["content"][0]["content"][0]["text"]) == "this and that"


async def test_a_picture_that_is_kept_in_a_file_is_shown_and_one_too_large_is_told(tmp_path: Path) -> None:
    def paint(size: int) -> spindle.Block:
        """Paint a picture."""
        import base64

        return spindle.Block("image", data=base64.b64encode(b"x" * size).decode(), mime_type="image/png")

    def nothing() -> None:
        """Return nothing."""

    async with workspace([paint, nothing]) as app:
        box = await tools(app)
        done = await box.dispatch(
            uses(
                ToolCall("paint", {"size": 400_000}),
                ToolCall("paint", {"size": MAX_PICTURE + 1}),
                ToolCall("nothing"),
            )
        )
    shown, told, empty = (block["content"][0] for block in done.messages[0]["content"])
    assert shown["type"] == "image"
    assert len(shown["source"]["data"]) > 500_000
    assert told["type"] == "text"
    assert f"image, image/png, {MAX_PICTURE + 1} bytes" in told["text"]
    assert unframed(empty["text"]) == "(the tool returned nothing)"
