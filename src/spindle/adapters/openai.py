"""Tools for OpenAI's APIs, Chat Completions and Responses, and for all APIs compatible with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from spindle.adapters.dispatch import Dispatched, Dispatching, RequestedCall, plain
from spindle.adapters.tool_names import App, Offer, ToolChoice
from spindle.calls.content import Part, TextPart, text_of
from spindle.calls.options import DEFAULT_OPTIONS, CallOptions
from spindle.domain.json_schema import JsonObject, is_object, objects_in
from spindle.schemas.models import model_description, model_schema

if TYPE_CHECKING:
    from spindle.domain.tool import Tool


class OpenAIDispatched(Dispatched):
    """The answers to the calls of one turn, in the form of OpenAI's APIs."""

    def answered(self, asked: RequestedCall, parts: list[Part], is_error: bool) -> JsonObject:
        # Neither API has a field that marks an error.
        marked: list[Part] = [TextPart("Error:"), *parts] if is_error else parts
        if asked.form == "chat":
            return {"role": "tool", "tool_call_id": asked.id, "content": text_of(marked)}
        output: str | list[JsonObject] = text_of(marked)
        if any(not isinstance(part, TextPart) for part in parts):
            output = [
                {"type": "input_text", "text": part.text}
                if isinstance(part, TextPart)
                else {"type": "input_image", "image_url": part.url, "detail": "auto"}
                for part in marked
            ]
        return {"type": "function_call_output", "call_id": asked.id, "output": output}

    def enveloped(self, answers: list[JsonObject]) -> list[JsonObject]:
        return answers


class OpenAITools(Dispatching[OpenAIDispatched]):
    """The tools of a catalog for OpenAI's APIs, made by `tools`."""

    @property
    def chat(self) -> list[Any]:
        """The tools for `client.chat.completions.create(tools=…)`."""
        return [
            {"type": "function", "function": _definition(name, tool)}
            for name, tool in self._offer.tools.items()
        ]

    @property
    def responses(self) -> list[Any]:
        """The tools for `client.responses.create(tools=…)`."""
        # This API assumes strict schemas, and most are not.
        return [
            {"type": "function", **_definition(name, tool), "strict": False}
            for name, tool in self._offer.tools.items()
        ]

    def calls_in(self, asked: Any) -> Iterator[RequestedCall]:
        data = plain(asked)
        if is_object(data):
            choices = objects_in(data.get("choices"))
            message = choices[0].get("message") if choices else data
            known = message if is_object(message) else {}
            data = [*objects_in(known.get("tool_calls")), *objects_in(known.get("output"))]
        for item in objects_in(data):
            function = item.get("function")
            if item.get("type") == "function_call":
                yield RequestedCall(
                    str(item["call_id"]), str(item["name"]), item.get("arguments"), "responses"
                )
            elif is_object(function):
                yield RequestedCall(str(item["id"]), str(function["name"]), function.get("arguments"), "chat")

    def begin(self, order: list[str]) -> OpenAIDispatched:
        return OpenAIDispatched(order)


async def tools(
    app: App,
    *names: str,
    source: str | None = None,
    tag: str | None = None,
    options: CallOptions = DEFAULT_OPTIONS,
) -> OpenAITools:
    """Chooses tools of the catalog for OpenAI's APIs: all, or those that match one of `names` (globs over
    full names), a source or a tag. `options` apply to every call, such as its principal."""
    return OpenAITools(await Offer.of(app, ToolChoice(names, source, tag), options))


def _definition(name: str, tool: Tool) -> JsonObject:
    return {"name": name, "description": model_description(tool), "parameters": model_schema(tool)}
