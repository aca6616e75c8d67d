"""Tools of a catalog as LangChain tools, and LangChain tools in a catalog."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar, cast

try:
    from langchain_core.messages import ToolMessage
    from langchain_core.tools import BaseTool, StructuredTool, ToolException
except ImportError as error:
    raise ImportError(
        "spindle.adapters.langchain needs langchain-core: pip install langchain-core"
    ) from error

from spindle.adapters.dispatch import CallPaused, PausedCall
from spindle.adapters.graph_pauses import driven, driven_blocking, graph_call, step_key
from spindle.adapters.tool_names import App, Offer, ToolChoice
from spindle.calls.content import Part, TextPart, parts_of, text_of
from spindle.calls.framing import framed_parts
from spindle.calls.options import DEFAULT_OPTIONS, CallOptions
from spindle.calls.reported import result_of
from spindle.domain.call import Block, Result
from spindle.domain.json_schema import JsonObject, is_array, is_object
from spindle.errors import SpindleError, ToolError
from spindle.runs.outcomes import Finished, Paused
from spindle.schemas.models import model_description, model_schema

T = TypeVar("T")
Content = str | list[str | dict[Any, Any]]


class CatalogTool(StructuredTool):
    """A tool of a catalog for LangChain. Arguments called `config` or `run_manager` reach the tool too:
    LangChain itself would take them for its own."""

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[str, ...], dict[str, Any]]:
        _, arguments = super()._to_args_and_kwargs(tool_input, tool_call_id)
        return (tool_call_id or "",), arguments

    def _run(self, call_id: str, /, **arguments: Any) -> Any:
        assert self.func is not None
        return self.func(call_id, arguments)

    async def _arun(self, call_id: str, /, **arguments: Any) -> Any:
        assert self.coroutine is not None
        return await self.coroutine(call_id, arguments)


async def tools(
    app: App,
    *names: str,
    source: str | None = None,
    tag: str | None = None,
    options: CallOptions = DEFAULT_OPTIONS,
) -> list[StructuredTool]:
    """Returns tools of the catalog for LangChain: all, or those that match one of `names` (globs over full
    names), a source or a tag. `options` apply to every call, such as its principal.

    Both `ainvoke` and `invoke` work from any loop and thread, except that `invoke` blocks. An error becomes a
    message with the status `error`. A call that waits for a person is an interrupt in a graph that has a
    checkpointer; elsewhere it raises CallPaused.
    """
    offer = await Offer.of(app, ToolChoice(names, source, tag), options)
    return [_tool(offer, name) for name in offer.tools]


def _tool(offer: Offer, name: str) -> StructuredTool:
    found = offer.tools[name]

    async def call(call_id: str, arguments: JsonObject) -> tuple[Content, Result]:
        key = step_key() if call_id else None
        if key is not None:
            work = graph_call(offer, name, call_id, arguments, key)
            return await shown(call_id, await driven(work, offer.home.run))
        result = await offer.answer(name, arguments)
        if isinstance(result, Paused):
            raise CallPaused([PausedCall(call_id, name, result.run_id, "langchain", result.pauses)])
        return await shown(call_id, result)

    async def shown(call_id: str, result: Result) -> tuple[Content, Result]:
        parts = await parts_of(result)
        if call_id:  # else a program asked, not a model
            parts = framed_parts(parts, name)
        if result.is_error:
            raise ToolException(text_of(parts))
        return _content(parts), result

    def call_blocking(call_id: str, arguments: JsonObject) -> tuple[Content, Result]:
        key = step_key() if call_id else None
        if key is not None:
            # The graph is interrupted where it runs, which is this thread.
            result = driven_blocking(graph_call(offer, name, call_id, arguments, key), wait)
            return wait(shown(call_id, result))
        return wait(call(call_id, arguments))

    def wait(work: Coroutine[Any, Any, T]) -> T:
        return offer.home.wait(work, "`ainvoke`")

    return CatalogTool(
        name=name,
        description=model_description(found),
        args_schema=model_schema(found),
        func=call_blocking,
        coroutine=call,
        response_format="content_and_artifact",
        handle_tool_error=True,
        tags=list(found.spec.tags) or None,
        metadata={"tool": found.name, "source": found.source, "hints": found.hints.to_dict()},
    )


async def tool_message(call_id: str, outcome: Finished | SpindleError, name: str = "the tool") -> ToolMessage:
    """The answer to a paused call, from the outcome that `app.resume` returned or the error that it
    raised."""
    result = result_of(outcome) if isinstance(outcome, SpindleError) else outcome.result
    content = _content(framed_parts(await parts_of(result), name))
    status = "error" if result.is_error else "success"
    return ToolMessage(content, tool_call_id=call_id, status=status, artifact=result)


def _content(parts: list[Part]) -> Content:
    if all(isinstance(part, TextPart) for part in parts):
        return text_of(parts)
    return [
        {"type": "text", "text": part.text}
        if isinstance(part, TextPart)
        else {"type": "image", "base64": part.data, "mime_type": part.mime_type}
        for part in parts
    ]


def from_langchain(tool: BaseTool) -> Callable[..., Awaitable[Result]]:
    """Turns a LangChain tool into a function for `spindle.open(tools=[…])`, with its own name and schema."""
    from spindle.sources.code.decorator import tool as offered

    if not isinstance(tool, BaseTool):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may not check types
        raise TypeError(f"this is not a tool of LangChain: {tool!r}")
    given = tool.tool_call_schema
    schema = given if isinstance(given, dict) else cast(Any, given).model_json_schema()
    schema = {key: value for key, value in schema.items() if key not in ("title", "description")}

    @offered(name=tool.name, description=tool.description, input_schema=schema)
    async def call(**arguments: Any) -> Result:
        try:
            asked = {"type": "tool_call", "id": uuid.uuid4().hex, "name": tool.name, "args": arguments}
            answer: object = await tool.ainvoke(cast(Any, asked))
        except ToolException as error:
            raise ToolError(str(error)) from error
        if not isinstance(answer, ToolMessage):
            return Result.of_text(str(answer))
        artifact: object = answer.artifact
        if isinstance(artifact, Result):
            return artifact
        content: object = answer.content  # pyright: ignore[reportUnknownMemberType]
        return Result(tuple(_blocks(content)), is_error=answer.status == "error")

    return call


def _blocks(content: object) -> list[Block]:
    if not is_array(content):
        return [Block("text", text=str(content))]
    blocks: list[Block] = []
    for item in content:
        if is_object(item) and item.get("type") == "text":
            blocks.append(Block("text", text=str(item.get("text", ""))))
        elif is_object(item) and item.get("type") == "image" and isinstance(item.get("base64"), str):
            mime_type = str(item.get("mime_type") or "image/png")
            blocks.append(Block("image", data=item["base64"], mime_type=mime_type))
        else:
            blocks.append(Block("text", text=str(item)))
    return blocks
