"""The parts that all dialects share: events as bytes, and the checks that providers make."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from spindle.domain.json_schema import JsonObject, to_json
from spindle.testing.requests import Api, ModelRequest, definition_of
from spindle.testing.turns import ToolCall, Turn


class StreamMark(Enum):
    """The places in a stream where the server may stop."""

    FIRST_PIECE = "after the first piece of the answer"
    LAST_PIECE = "before the end is told"


@dataclass(frozen=True, slots=True)
class Answering:
    """A turn that is about to be sent. `number` counts requests from 1."""

    turn: Turn
    request: ModelRequest
    number: int
    created: int

    @property
    def calls(self) -> list[tuple[str, ToolCall]]:
        """The calls with their ids. Made-up ids are unique to this answer."""
        return [
            (call.id or f"call_{self.number}_{index}", call)
            for index, call in enumerate(self.turn.calls, start=1)
        ]


class Dialect(Protocol):
    """One API's form of requests, answers and errors."""

    api: Api

    def messages(self, body: JsonObject) -> list[JsonObject] | str:
        """The conversation in a request, or a text that says what is wrong with it."""
        ...

    def whole(self, answering: Answering) -> JsonObject:
        """The whole answer, not streamed."""
        ...

    def events(self, answering: Answering) -> Iterator[JsonObject | StreamMark]:
        """The events of a streamed answer, with the marks where it may stop."""
        ...

    def failure(self, status: int, message: str) -> JsonObject:
        """The body of an error."""
        ...

    def encode(self, event: JsonObject) -> bytes:
        """The bytes of one event."""
        ...

    end: bytes
    """Sent after all events."""
    longest_name: int


def marked(pieces: Iterable[JsonObject]) -> Iterator[JsonObject | StreamMark]:
    """Yields the pieces of an answer, with the marks where the server may stop."""
    for number, piece in enumerate(pieces):
        yield piece
        if number == 0:
            yield StreamMark.FIRST_PIECE
    yield StreamMark.LAST_PIECE


def named_event(event: JsonObject) -> bytes:
    """The bytes of an event with its name."""
    return b"event: " + str(event["type"]).encode() + b"\ndata: " + to_json(event) + b"\n\n"


def problem_with(request: ModelRequest, longest_name: int) -> str | None:
    """The reason for which a provider would refuse this request, so that a test notices it; None if there
    is none."""
    names: set[str] = set()
    for tool in request.tools:
        definition = definition_of(tool)
        name = definition.get("name")
        if "name" not in definition and tool.get("type") not in (None, "function"):
            continue  # a tool that the provider itself has
        if not isinstance(name, str) or not re.fullmatch(rf"[A-Za-z0-9_-]{{1,{longest_name}}}", name):
            return f"the name of a tool is {name!r}, and must fit [a-zA-Z0-9_-]{{1,{longest_name}}}"
        if name in names:
            return f"two tools are named {name!r}"
        names.add(name)
    # Counted, because a script may give the same id in several turns.
    asked, answered = Counter(request.asked_calls), Counter(answer.id for answer in request.tool_answers)
    for call_id, count in answered.items():
        if call_id not in asked:
            return f"there is an answer to the tool call {call_id!r}, which nobody asked for"
        if count > asked[call_id]:
            return f"the tool call {call_id!r} is answered twice"
    unanswered = [call_id for call_id, count in asked.items() if count > answered[call_id]]
    if unanswered:
        return f"the tool calls {', '.join(map(repr, unanswered))} are not answered"
    return None
