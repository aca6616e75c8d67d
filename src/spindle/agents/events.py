"""The events of a run of an agent, sent while they happen and again from the record."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Generator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

from spindle.domain.json_schema import JsonObject, to_json
from spindle.domain.records import set_fields

EventKind = Literal[
    "start", "thought", "text", "tool_call", "tool_result", "told", "compacted", "switched", "pause", "end"
]


@dataclass(frozen=True, slots=True)
class AgentEvent:
    """One event of a run.

    `start` has the task as `text`; `thought` and `text` what the model says, in pieces while it is streamed;
    `tool_call` and `tool_result` the `tool`, and its `arguments`, or how it ended (`outcome`: `ok` or the
    category of an error) with the `text` that the model is shown; `told` what the model is told about an
    answer that cannot be used; `compacted` what was left out of a conversation that was too long; `switched`
    why another model goes on; `pause` the `pauses`; `end` the `result`.
    """

    kind: EventKind
    run_id: str
    step: int = 0
    """The number of the model's answer that it belongs to, from 1."""
    text: str | None = None
    tool: str | None = None
    call_id: str | None = None
    arguments: Any = None
    outcome: str | None = None
    pauses: tuple[JsonObject, ...] | None = None
    result: JsonObject | None = None

    def to_dict(self) -> JsonObject:
        """Returns the event as JSON, without fields that are not set."""
        return set_fields(self)


@dataclass(frozen=True, slots=True)
class Listener:
    """Follows a run that is executed in this context, and checks what a JSON Schema cannot."""

    hear: Callable[[AgentEvent], None] | None = None
    streams: bool = False
    """True: also send text while the model writes it."""
    check: Callable[[Any], str | None] | None = None
    """Returns what is wrong with an answer that fits the schema."""


listener: ContextVar[Listener] = ContextVar("spindle_agent_listener", default=Listener())  # noqa: B039 - frozen


@contextlib.contextmanager
def listening(
    hear: Callable[[AgentEvent], None] | None,
    *,
    streams: bool = False,
    check: Callable[[Any], str | None] | None = None,
) -> Generator[None]:
    """Sends events of the agents' runs that are executed inside to the listener."""
    token = listener.set(Listener(hear, streams, check))
    try:
        yield
    finally:
        listener.reset(token)


async def sse(events: AsyncIterator[AgentEvent]) -> AsyncIterator[bytes]:
    """Yields events as a `text/event-stream`: the body of a response, such as Starlette's
    StreamingResponse."""
    async for event in events:
        yield encode(event)


def encode(event: AgentEvent) -> bytes:
    """Returns an event as one entry of a `text/event-stream`."""
    data = to_json(event.to_dict(), default=str)
    return b"event: " + event.kind.encode() + b"\ndata: " + data + b"\n\n"
