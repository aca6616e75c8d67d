"""What happens in a run of an agent, as it is told while it happens and again from the record."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Generator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

from spindle.domain.json_schema import JsonObject, to_json

EventKind = Literal["start", "thought", "text", "tool_call", "tool_result", "told", "pause", "end"]


@dataclass(frozen=True, slots=True)
class AgentEvent:
    """One thing that happened.

    `start` has the task as `text`; `thought` and `text` what the model says, in pieces while it is streamed;
    `tool_call` and `tool_result` the `tool`, and its `arguments`, or how it ended (`outcome`: `ok` or the
    category of an error) with the `text` that the model is shown; `told` what the model is told about an
    answer that cannot be used; `pause` the `pauses`; `end` the `result`.
    """

    kind: EventKind
    run_id: str
    step: int = 0
    """The answer of the model that it belongs to, from 1."""
    text: str | None = None
    tool: str | None = None
    call_id: str | None = None
    arguments: Any = None
    outcome: str | None = None
    pauses: tuple[JsonObject, ...] | None = None
    result: JsonObject | None = None

    def to_dict(self) -> JsonObject:
        names = (
            "kind",
            "run_id",
            "step",
            "text",
            "tool",
            "call_id",
            "arguments",
            "outcome",
            "pauses",
            "result",
        )
        return {name: value for name in names if (value := getattr(self, name)) is not None}


@dataclass(frozen=True, slots=True)
class Listener:
    """Who follows a run that is executed in this context, and what they can check that JSON cannot."""

    hear: Callable[[AgentEvent], None] | None = None
    streams: bool = False
    """Whether to tell of text while the model says it."""
    check: Callable[[Any], str | None] | None = None
    """What is wrong with an answer that fits the schema."""


listener: ContextVar[Listener] = ContextVar("spindle_agent_listener", default=Listener())  # noqa: B039 - frozen


@contextlib.contextmanager
def listening(
    hear: Callable[[AgentEvent], None] | None,
    *,
    streams: bool = False,
    check: Callable[[Any], str | None] | None = None,
) -> Generator[None]:
    """Follow the runs of agents that are executed in here."""
    token = listener.set(Listener(hear, streams, check))
    try:
        yield
    finally:
        listener.reset(token)


async def sse(events: AsyncIterator[AgentEvent]) -> AsyncIterator[bytes]:
    """Events as a `text/event-stream`: the body of a response, such as Starlette's StreamingResponse."""
    async for event in events:
        yield encode(event)


def encode(event: AgentEvent) -> bytes:
    data = to_json(event.to_dict(), default=str)
    return b"event: " + event.kind.encode() + b"\ndata: " + data + b"\n\n"
