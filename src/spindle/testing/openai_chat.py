"""OpenAI's Chat Completions API, as the test server speaks it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spindle.domain.json_schema import JsonObject, is_array, is_object, objects_in, to_json
from spindle.testing.requests import Api
from spindle.testing.turns import Turn, Usage, halves, pieces
from spindle.testing.wire import Answering, StreamMark, marked

FAILURES = {401: "invalid_request_error", 403: "invalid_request_error", 429: "requests"}


class ChatCompletions:
    """The dialect of OpenAI's Chat Completions API."""

    api: Api = "openai-chat"
    end = b"data: [DONE]\n\n"
    longest_name = 64

    def messages(self, body: JsonObject) -> list[JsonObject] | str:
        given = body.get("messages")
        if not is_array(given) or not given:
            return "`messages` is missing or empty"
        return objects_in(given)

    def whole(self, answering: Answering) -> JsonObject:
        turn = answering.turn
        refused = turn.stop == "refusal"
        message: JsonObject = {
            "role": "assistant",
            "content": None if refused or (turn.calls and not turn.text) else turn.text,
            "refusal": turn.text if refused else None,
            "annotations": [],
        }
        if turn.thought:
            message["reasoning_content"] = turn.thought
        if turn.calls:
            message["tool_calls"] = [
                {"id": id, "type": "function", "function": {"name": call.name, "arguments": call.written}}
                for id, call in answering.calls
            ]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(turn)}
        return {
            **_base(answering, "chat.completion"),
            "choices": [choice],
            "usage": _usage(turn.usage),
        }

    def events(self, answering: Answering) -> Iterator[JsonObject | StreamMark]:
        turn = answering.turn
        key = "refusal" if turn.stop == "refusal" else "content"
        yield _chunk(answering, {"role": "assistant", "content": "", "refusal": None})
        yield from marked(_chunk(answering, delta) for delta in _deltas(answering, key))
        yield _chunk(answering, {}, _finish(turn))
        options = answering.request.body.get("stream_options")
        if is_object(options) and options.get("include_usage"):
            base = _base(answering, "chat.completion.chunk")
            yield {**base, "choices": [], "usage": _usage(turn.usage)}

    def failure(self, status: int, message: str) -> JsonObject:
        kind = FAILURES.get(status, "server_error" if status >= 500 else "invalid_request_error")
        code = {401: "invalid_api_key", 429: "rate_limit_exceeded"}.get(status)
        return {"error": {"message": message, "type": kind, "param": None, "code": code}}

    def encode(self, event: JsonObject) -> bytes:
        return b"data: " + to_json(event) + b"\n\n"


def _deltas(answering: Answering, key: str) -> Iterator[JsonObject]:
    turn = answering.turn
    for piece in pieces(turn.thought):
        yield {"reasoning_content": piece}
    for piece in pieces(turn.text):
        yield {key: piece}
    for index, (call_id, call) in enumerate(answering.calls):
        start = {"name": call.name, "arguments": ""}
        yield {"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": start}]}
        for part in halves(call.written):
            yield {"tool_calls": [{"index": index, "function": {"arguments": part}}]}


def _base(answering: Answering, kind: str) -> JsonObject:
    return {
        "id": f"chatcmpl-{answering.number}",
        "object": kind,
        "created": answering.created,
        "model": answering.request.model,
        "system_fingerprint": None,
    }


def _chunk(answering: Answering, delta: JsonObject, finish: str | None = None) -> JsonObject:
    choice: dict[str, Any] = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return {**_base(answering, "chat.completion.chunk"), "choices": [choice]}


def _finish(turn: Turn) -> str:
    if turn.stop in ("length", "content_filter"):
        return turn.stop
    return "tool_calls" if turn.calls else "stop"


def _usage(usage: Usage) -> JsonObject:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens, "audio_tokens": 0},
    }
