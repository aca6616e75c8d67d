"""OpenAI's Responses API, as the test server speaks it."""

from __future__ import annotations

from collections.abc import Iterator

from spindle.domain.json_schema import JsonObject, is_array, objects_in
from spindle.testing.openai_chat import ChatCompletions
from spindle.testing.requests import Api
from spindle.testing.turns import Turn, halves, pieces
from spindle.testing.wire import Answering, StreamMark, named_event

INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


class Responses:
    """The dialect of OpenAI's Responses API."""

    api: Api = "openai-responses"
    end = b""
    longest_name = 64

    def __init__(self) -> None:
        self._kept: dict[str, list[JsonObject]] = {}
        """By the id of a response, the conversation up to it."""

    def messages(self, body: JsonObject) -> list[JsonObject] | str:
        given = body.get("input")
        earlier: list[JsonObject] = []
        if (previous := body.get("previous_response_id")) is not None:
            if previous not in self._kept:
                return f"previous response {previous!r} is not one of this server's"
            earlier = self._kept[previous]
        if isinstance(given, str):
            return [*earlier, {"role": "user", "content": given}]
        if not is_array(given) or not given:
            return "`input` is missing or empty"
        return [*earlier, *objects_in(given)]

    def whole(self, answering: Answering) -> JsonObject:
        response = _response(answering, _status(answering.turn), _items(answering))
        self._keep(answering, response)
        return response

    def events(self, answering: Answering) -> Iterator[JsonObject | StreamMark]:
        number = 0
        for event in self._events(answering):
            if isinstance(event, StreamMark):
                yield event
            else:
                yield {**event, "sequence_number": number}
                number += 1

    def _events(self, answering: Answering) -> Iterator[JsonObject | StreamMark]:
        started = _response(answering, "in_progress", [])
        yield {"type": "response.created", "response": started}
        yield {"type": "response.in_progress", "response": started}
        items = _items(answering)
        told = False
        for index, item in enumerate(items):
            for event in _item_events(item, index):
                yield event
                if not told and str(event["type"]).endswith(".delta"):
                    yield StreamMark.FIRST_PIECE
                    told = True
        yield StreamMark.LAST_PIECE
        status = _status(answering.turn)
        response = _response(answering, status, items)
        self._keep(answering, response)
        yield {"type": f"response.{status}", "response": response}

    def _keep(self, answering: Answering, response: JsonObject) -> None:
        self._kept[response["id"]] = [*answering.request.messages, *objects_in(response["output"])]

    def failure(self, status: int, message: str) -> JsonObject:
        return ChatCompletions().failure(status, message)

    def encode(self, event: JsonObject) -> bytes:
        return named_event(event)


def _status(turn: Turn) -> str:
    return "incomplete" if turn.stop in INCOMPLETE else "completed"


def _items(answering: Answering) -> list[JsonObject]:
    turn, number = answering.turn, answering.number
    status = _status(turn)
    items: list[JsonObject] = []
    if turn.thought:
        summary = [{"type": "summary_text", "text": turn.thought}]
        items.append({"type": "reasoning", "id": f"rs_{number}", "summary": summary})
    if turn.text:
        content: JsonObject = {"type": "output_text", "text": turn.text, "annotations": [], "logprobs": []}
        if turn.stop == "refusal":
            content = {"type": "refusal", "refusal": turn.text}
        items.append(
            {
                "type": "message",
                "id": f"msg_{number}",
                "role": "assistant",
                "status": status,
                "content": [content],
            }
        )
    for index, (call_id, call) in enumerate(answering.calls, start=1):
        items.append(
            {
                "type": "function_call",
                "id": f"fc_{number}_{index}",
                "call_id": call_id,
                "name": call.name,
                "arguments": call.written,
                "status": status,
            }
        )
    return items


def _item_events(item: JsonObject, index: int) -> Iterator[JsonObject]:
    place = {"item_id": item["id"], "output_index": index}
    yield {
        "type": "response.output_item.added",
        "output_index": index,
        "item": {**_emptied(item), "status": "in_progress"},
    }
    match item["type"]:
        case "message":
            yield from _message_events(item["content"][0], {**place, "content_index": 0})
        case "function_call":
            kind = "response.function_call_arguments"
            for part in halves(item["arguments"]):
                yield {"type": f"{kind}.delta", **place, "delta": part}
            yield {"type": f"{kind}.done", **place, "arguments": item["arguments"], "name": item["name"]}
        case _:
            part = item["summary"][0]
            place = {**place, "summary_index": 0}
            kind = "response.reasoning_summary"
            yield {"type": f"{kind}_part.added", **place, "part": {**part, "text": ""}}
            for piece in pieces(part["text"]):
                yield {"type": f"{kind}_text.delta", **place, "delta": piece}
            yield {"type": f"{kind}_text.done", **place, "text": part["text"]}
            yield {"type": f"{kind}_part.done", **place, "part": part}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _message_events(content: JsonObject, place: JsonObject) -> Iterator[JsonObject]:
    key = "refusal" if content["type"] == "refusal" else "text"
    kind = "response.refusal" if key == "refusal" else "response.output_text"
    extra: JsonObject = {} if key == "refusal" else {"logprobs": []}
    yield {"type": "response.content_part.added", **place, "part": {**content, key: ""}}
    for piece in pieces(content[key]):
        yield {"type": f"{kind}.delta", **place, "delta": piece, **extra}
    yield {"type": f"{kind}.done", **place, key: content[key], **extra}
    yield {"type": "response.content_part.done", **place, "part": content}


def _emptied(item: JsonObject) -> JsonObject:
    """An item as it is announced, before its content."""
    empty: JsonObject = {"content": [], "summary": [], "arguments": ""}
    return {key: empty.get(key, value) for key, value in item.items()}


def _response(answering: Answering, status: str, items: list[JsonObject]) -> JsonObject:
    request, turn = answering.request, answering.turn
    body = request.body
    done = status != "in_progress"
    usage = turn.usage
    reason = INCOMPLETE.get(turn.stop) if done else None
    return {
        "id": f"resp_{answering.number}",
        "object": "response",
        "created_at": answering.created,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": body.get("instructions"),
        "metadata": {},
        "model": request.model,
        "output": items,
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "previous_response_id": body.get("previous_response_id"),
        "temperature": body.get("temperature"),
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": request.tools,
        "top_p": body.get("top_p"),
        "usage": {
            "input_tokens": usage.input_tokens,
            "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
            "total_tokens": usage.input_tokens + usage.output_tokens,
        }
        if done
        else None,
    }
