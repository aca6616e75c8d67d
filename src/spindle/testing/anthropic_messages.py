"""Anthropic's Messages API, as the test server speaks it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spindle.domain.json_schema import JsonObject, is_array, objects_in
from spindle.testing.requests import Api
from spindle.testing.turns import Turn, halves, pieces
from spindle.testing.wire import Answering, StreamMark, named_event

FAILURES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class Messages:
    """The dialect of Anthropic's Messages API."""

    api: Api = "anthropic"
    end = b""
    longest_name = 128

    def messages(self, body: JsonObject) -> list[JsonObject] | str:
        given = body.get("messages")
        if not is_array(given) or not given:
            return "messages: at least one message is required"
        if not isinstance(body.get("max_tokens"), int):
            return "max_tokens: Field required"
        return objects_in(given)

    def whole(self, answering: Answering) -> JsonObject:
        return _message(answering, _blocks(answering), ended=True)

    def events(self, answering: Answering) -> Iterator[JsonObject | StreamMark]:
        turn = answering.turn
        yield {"type": "message_start", "message": _message(answering, [], ended=False)}
        told = False
        for index, block in enumerate(_blocks(answering)):
            start, deltas = _in_pieces(block)
            yield {"type": "content_block_start", "index": index, "content_block": start}
            for delta in deltas:
                yield {"type": "content_block_delta", "index": index, "delta": delta}
                if not told:
                    yield StreamMark.FIRST_PIECE
                    told = True
            yield {"type": "content_block_stop", "index": index}
        yield StreamMark.LAST_PIECE
        yield {
            "type": "message_delta",
            "delta": _ending(turn),
            "usage": {"output_tokens": turn.usage.output_tokens},
        }
        yield {"type": "message_stop"}

    def failure(self, status: int, message: str) -> JsonObject:
        kind = FAILURES.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": None}

    def encode(self, event: JsonObject) -> bytes:
        return named_event(event)


def _blocks(answering: Answering) -> list[JsonObject]:
    turn = answering.turn
    blocks: list[JsonObject] = []
    if turn.thought:
        signature = f"signature-{answering.number}"
        blocks.append({"type": "thinking", "thinking": turn.thought, "signature": signature})
    if turn.text:
        blocks.append({"type": "text", "text": turn.text, "citations": None})
    for call_id, call in answering.calls:
        # Broken arguments are sent as a string: this API allows nothing worse in a whole answer.
        blocks.append({"type": "tool_use", "id": call_id, "name": call.name, "input": call.arguments})
    written = dict(answering.calls)
    for block in blocks:
        if block["type"] == "tool_use":
            block["written"] = written[block["id"]].written
    return blocks


def _in_pieces(block: JsonObject) -> tuple[JsonObject, list[JsonObject]]:
    """The beginning of a block, and the pieces that are then added to it."""
    match block["type"]:
        case "text":
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
            return {**block, "text": ""}, deltas
        case "thinking":
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])]
            signed = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*deltas, signed]
        case _:
            parts = halves(block["written"])
            return _plain({**block, "input": {}}), [
                {"type": "input_json_delta", "partial_json": part} for part in parts
            ]


def _plain(block: JsonObject) -> JsonObject:
    return {key: value for key, value in block.items() if key != "written"}


def _ending(turn: Turn) -> JsonObject:
    ending: dict[str, Any] = {"stop_reason": _stop_reason(turn), "stop_sequence": None}
    if ending["stop_reason"] == "refusal":
        explanation = turn.text or None
        ending["stop_details"] = {"type": "refusal", "category": None, "explanation": explanation}
    return ending


def _stop_reason(turn: Turn) -> str:
    if turn.stop == "length":
        return "max_tokens"
    if turn.stop in ("refusal", "content_filter"):
        return "refusal"
    return "tool_use" if turn.calls else "end_turn"


def _message(answering: Answering, blocks: list[JsonObject], *, ended: bool) -> JsonObject:
    turn = answering.turn
    usage = turn.usage
    return {
        "id": f"msg_{answering.number}",
        "type": "message",
        "role": "assistant",
        "model": answering.request.model,
        "content": [_plain(block) for block in blocks],
        **(_ending(turn) if ended else {"stop_reason": None, "stop_sequence": None}),
        "usage": {
            # This API counts cached tokens separately.
            "input_tokens": usage.input_tokens - usage.cached_tokens,
            "cache_read_input_tokens": usage.cached_tokens,
            "cache_creation_input_tokens": 0,
            "output_tokens": usage.output_tokens if ended else 1,
        },
    }
