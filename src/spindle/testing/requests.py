"""The requests that a model received, in the same form for every API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from spindle.calls.framing import unframed
from spindle.domain.json_schema import JsonObject, is_object, objects_in

Api = Literal["openai-chat", "openai-responses", "anthropic"]

SECRET_HEADERS = frozenset({"authorization", "x-api-key", "api-key", "cookie", "proxy-authorization"})


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The answer to a call that the model asked for."""

    id: str
    text: str
    """The text without the marks that say that it is data."""
    content: Any
    """The content as sent, with images if the API takes them."""
    is_error: bool | None = None
    """None if the API cannot tell."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request. `messages` and `tools` are as sent; the properties are the same for all APIs."""

    api: Api
    body: JsonObject = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    """The headers without those that hold a key."""
    messages: list[JsonObject]
    """The messages, including those of the conversation that `previous_response_id` continues."""

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def stream(self) -> bool:
        return self.body.get("stream") is True

    @property
    def tools(self) -> list[JsonObject]:
        return objects_in(self.body.get("tools"))

    @property
    def tool_names(self) -> list[str]:
        return [str(definition_of(tool).get("name", tool.get("type", ""))) for tool in self.tools]

    @property
    def instructions(self) -> str:
        """The texts of the system and the developer."""
        said = [
            text_of(item.get("content"))
            for item in self.messages
            if item.get("role") in ("system", "developer")
        ]
        apart = self.body.get("system") if self.api == "anthropic" else self.body.get("instructions")
        return "\n".join(text for text in (text_of(apart), *said) if text)

    @property
    def prompt(self) -> str:
        """The last text of the user."""
        said = [text_of(item.get("content")) for item in self.messages if item.get("role") == "user"]
        return next((text for text in reversed(said) if text), "")

    @property
    def tool_answers(self) -> list[ToolAnswer]:
        """The answers to calls in the whole conversation, the oldest first."""
        found: list[ToolAnswer] = []
        for item in self.messages:
            if item.get("role") == "tool":
                found.append(_answer(item, "tool_call_id", item.get("content")))
            elif item.get("type") == "function_call_output":
                found.append(_answer(item, "call_id", item.get("output")))
            else:
                found += [
                    _answer(block, "tool_use_id", block.get("content"))
                    for block in objects_in(item.get("content"))
                    if block.get("type") == "tool_result"
                ]
        return found

    @property
    def asked_calls(self) -> list[str]:
        """The ids of all calls that the model asked for in this conversation."""
        found: list[str] = []
        for item in self.messages:
            if item.get("type") == "function_call":
                found.append(str(item.get("call_id")))
            found += [str(call.get("id")) for call in objects_in(item.get("tool_calls"))]
            found += [
                str(block.get("id"))
                for block in objects_in(item.get("content"))
                if block.get("type") == "tool_use"
            ]
        return found


def definition_of(tool: JsonObject) -> JsonObject:
    """The object with a tool's name and schema: Chat Completions puts it one level deeper."""
    inner = tool.get("function")
    return inner if is_object(inner) else tool


def text_of(content: object) -> str:
    """The text of a message's content, which is a string or a list of parts."""
    if isinstance(content, str):
        return content
    parts = [item.get("text") for item in objects_in(content)]
    return "\n".join(part for part in parts if isinstance(part, str))


def _answer(item: JsonObject, id_key: str, content: Any) -> ToolAnswer:
    said = item.get("is_error")
    is_error = (said is True) if id_key == "tool_use_id" else None
    return ToolAnswer(str(item.get(id_key)), unframed(text_of(content)), content, is_error)
