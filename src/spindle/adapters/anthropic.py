"""Tools for Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spindle.adapters.dispatch import Dispatched, Dispatching, RequestedCall, plain
from spindle.adapters.tool_names import App, Offer, ToolChoice
from spindle.calls.content import Part, TextPart
from spindle.calls.options import DEFAULT_OPTIONS, CallOptions
from spindle.domain.json_schema import JsonObject, is_object, objects_in
from spindle.schemas.models import model_description, model_schema


class AnthropicDispatched(Dispatched):
    """The answers to the calls of one turn, in the form of Anthropic's Messages API."""

    def answered(self, asked: RequestedCall, parts: list[Part], is_error: bool) -> JsonObject:
        content = [
            {"type": "text", "text": part.text}
            if isinstance(part, TextPart)
            else {
                "type": "image",
                "source": {"type": "base64", "media_type": part.mime_type, "data": part.data},
            }
            for part in parts
            # The API refuses an empty text.
            if not isinstance(part, TextPart) or part.text
        ]
        block: JsonObject = {"type": "tool_result", "tool_use_id": asked.id, "content": content}
        return block | ({"is_error": True} if is_error else {})

    def enveloped(self, answers: list[JsonObject]) -> list[JsonObject]:
        # This API wants all answers in the one message that follows the calls.
        return [{"role": "user", "content": answers}] if answers else []


class AnthropicTools(Dispatching[AnthropicDispatched]):
    """The tools of a catalog for Anthropic's Messages API, made by `tools`."""

    @property
    def definitions(self) -> list[Any]:
        """The tools for `client.messages.create(tools=…)`."""
        return [
            {"name": name, "description": model_description(tool), "input_schema": model_schema(tool)}
            for name, tool in self._offer.tools.items()
        ]

    def calls_in(self, asked: Any) -> Iterator[RequestedCall]:
        data = plain(asked)
        if is_object(data):
            data = data.get("content")
        for block in objects_in(data):
            if block.get("type") == "tool_use":
                yield RequestedCall(str(block["id"]), str(block["name"]), block.get("input"), "messages")

    def begin(self, order: list[str]) -> AnthropicDispatched:
        return AnthropicDispatched(order)


async def tools(
    app: App,
    *names: str,
    source: str | None = None,
    tag: str | None = None,
    options: CallOptions = DEFAULT_OPTIONS,
) -> AnthropicTools:
    """Chooses tools of the catalog for Anthropic's API: all, or those that match one of `names` (globs
    over full names), a source or a tag. `options` apply to every call, such as its principal."""
    return AnthropicTools(await Offer.of(app, ToolChoice(names, source, tag), options))
