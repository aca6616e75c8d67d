"""The messages between an agent and its model, built the same way live and from the record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ToolReturnPart,
    UserPromptPart,
)

from spindle.agents.attachments import content_of
from spindle.agents.context import Cut, without
from spindle.calls.framing import framed
from spindle.domain.json_schema import JsonObject, is_object
from spindle.domain.visible import visible

if TYPE_CHECKING:
    from spindle.calls.content import PicturePart

NOT_MADE = "this call was not made, because the run ended before"


class Conversation:
    """The messages of one run."""

    def __init__(self, history: Sequence[ModelMessage] = (), key: str = "") -> None:
        """`key` is the run's id, of which the marks around results are made."""
        self._key = key
        self._messages: list[ModelMessage] = list(history)
        self._next: list[ModelRequestPart] = []
        self._pinned: list[ModelRequestPart] = []

    def say(self, text: str, files: Sequence[JsonObject] = (), *, pinned: bool = False) -> None:
        """Adds something to tell the model, from the user or about its last answer. What is pinned is never
        left out."""
        part = UserPromptPart(content_of(text, files))
        self._next.append(part)
        if pinned:
            self._pinned.append(part)

    def respond(self, response: ModelResponse) -> None:
        """Adds the model's answer to everything said since its last one."""
        self._flush()
        self._messages.append(response)

    def answer_call(
        self,
        call_id: str,
        name: str,
        text: str,
        *,
        failed: bool,
        pictures: Sequence[PicturePart] = (),
        about: JsonObject | None = None,
        is_ours: bool = False,
        told: str = "",
    ) -> None:
        """Answers a call with what its tool returned, as data, unless they are ours or the user's. `told`:
        what we say to it. `about` is kept with it and not shown: its `reference`, and whether it is
        `pinned`."""
        import base64

        text = visible(text) if is_ours else framed(text, name, f"{self._key} {call_id}")
        text = f"{text}\n{told}" if told else text
        content: Any = text
        if pictures:
            shown = [
                BinaryContent(base64.b64decode(item.data), media_type=item.mime_type) for item in pictures
            ]
            content = [text, *shown]
        outcome: Literal["failed", "success"] = "failed" if failed else "success"
        self._next.append(ToolReturnPart(name, content, call_id, outcome=outcome, metadata=about))

    def cut(self, given: Cut) -> None:
        """Leaves out what is cut."""
        self._messages = without(self.messages(), given, self.is_pinned)

    def is_pinned(self, part: ModelRequestPart) -> bool:
        """True if this part is never left out."""
        if isinstance(part, ToolReturnPart):
            known: object = part.metadata
            return is_object(known) and known.get("pinned") is True
        return any(part is pinned for pinned in self._pinned)

    def messages(self) -> list[ModelMessage]:
        """Returns all messages, such that a model can continue: every call has an answer."""
        self._answer_the_rest()
        self._flush()
        return list(self._messages)

    @property
    def awaits_the_model(self) -> bool:
        """True if it is the model's turn."""
        return bool(self._next) or (bool(self._messages) and isinstance(self._messages[-1], ModelRequest))

    def _flush(self) -> None:
        if self._next:
            self._messages.append(ModelRequest(self._next))
            self._next = []

    def _answer_the_rest(self) -> None:
        last = self._messages[-1] if self._messages else None
        if not isinstance(last, ModelResponse):
            return
        answered = {part.tool_call_id for part in self._next if isinstance(part, ToolReturnPart)}
        missing = [
            ToolReturnPart(call.tool_name, NOT_MADE, call.tool_call_id, outcome="interrupted")
            for call in last.tool_calls
            if call.tool_call_id not in answered
        ]
        self._next = [*missing, *self._next]


def write_messages(messages: Sequence[ModelMessage]) -> list[JsonObject]:
    """Returns messages as JSON."""
    return ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")


def read_messages(messages: Sequence[Mapping[str, Any]]) -> list[ModelMessage]:
    """Returns the messages that `write_messages` wrote."""
    return ModelMessagesTypeAdapter.validate_python(list(messages))


def read_response(data: Mapping[str, Any]) -> ModelResponse:
    """Returns one answer of a model that was written as JSON."""
    (response,) = read_messages([data])
    assert isinstance(response, ModelResponse)
    return response
