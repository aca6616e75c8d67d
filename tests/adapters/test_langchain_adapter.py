"""Tools of a catalog through LangChain and LangGraph, and LangChain's in a catalog."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator
from typing import Annotated, Any

import httpx
import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, StructuredTool, ToolException
from langchain_core.tools import tool as langchain_tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

import spindle
from adapters.samples import PIXEL, add
from spindle.adapters.dispatch import CallPaused
from spindle.adapters.langchain import from_langchain, tool_message, tools
from spindle.app import Spindle
from spindle.calls.framing import unframed
from spindle.runs.outcomes import Finished
from spindle.testing import ModelServer, ToolCall, Turn, workspace


def by_name(found: list[StructuredTool]) -> dict[str, StructuredTool]:
    return {tool.name: tool for tool in found}


def called(name: str, arguments: dict[str, Any], id: str = "c1") -> Any:
    return {"type": "tool_call", "id": id, "name": name, "args": arguments}


@pytest.fixture
async def chat(model: ModelServer) -> AsyncIterator[ChatOpenAI]:
    # Clients of its own: the library keeps one for each address, and another test's server may have had the
    # same port.
    with httpx.Client() as client:
        async with httpx.AsyncClient() as async_client:
            yield ChatOpenAI(
                model="gpt-scripted", base_url=model.openai_url, api_key="any", max_retries=0,
                use_responses_api=False, http_client=client, http_async_client=async_client,
            )  # fmt: skip


def graph(chat: ChatOpenAI, offered: list[StructuredTool]) -> Any:
    bound = chat.bind_tools(offered)

    async def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await bound.ainvoke(state["messages"])]}

    built = StateGraph(MessagesState)
    built.add_node("think", think)
    built.add_node("tools", ToolNode(offered))
    built.add_edge(START, "think")
    built.add_conditional_edges("think", tools_condition, {"tools": "tools", END: END})
    built.add_edge("tools", "think")
    return built.compile()


async def test_a_graph_calls_tools_of_the_catalog(app: Spindle, model: ModelServer, chat: ChatOpenAI) -> None:
    model.feed(
        Turn(
            calls=[
                ToolCall("add", {"a": 1, "b": 2}),
                ToolCall("time_get_current_time", {"timezone": "UTC"}),
                ToolCall("broken"),
                ToolCall("meet", {"name": "ann"}),
                ToolCall("meet", {"name": "bob"}),
            ]
        ),
        "done",
    )
    ended = await graph(chat, await tools(app)).ainvoke({"messages": [("user", "go")]})
    assert ended["messages"][-1].content == "done"
    answers = [message for message in ended["messages"] if isinstance(message, ToolMessage)]
    assert [answer.status for answer in answers] == ["success", "success", "error", "success", "success"]
    assert unframed(str(answers[0].content)) == "3"
    assert "UTC" in str(answers[1].content)
    assert unframed(str(answers[2].content)) == "ValueError: out of order"
    sent = {tool["function"]["name"]: tool["function"]["parameters"] for tool in model.requests[0].tools}
    assert sent["add"]["required"] == ["a", "b"]
    assert "IANA" in sent["time_get_current_time"]["properties"]["timezone"]["description"]


async def test_the_whole_schema_is_kept_and_the_result_is_the_artifact(app: Spindle) -> None:
    found = by_name(await tools(app))
    for name, tool in found.items():
        assert isinstance(tool, StructuredTool)
        assert tool.metadata is not None
        assert tool.args_schema == (await app.show(tool.metadata["tool"])).input_schema
        assert (await app.show(tool.metadata["tool"])).description == tool.description, name
    message = await found["add"].ainvoke(called("add", {"a": 1, "b": 2}))
    assert message.artifact.structured == 3
    assert await found["add"].ainvoke({"a": 1, "b": 2}) == "3"
    odd = await found["odd_name"].ainvoke({"config": "x", "run_manager": "y"})
    assert odd == "x/y"


async def test_pictures_and_bad_arguments(app: Spindle) -> None:
    found = by_name(await tools(app, "picture", "add"))
    message = await found["picture"].ainvoke(called("picture", {}))
    said, shown = message.content
    assert unframed(said["text"]) == "look:"
    assert shown == {"type": "image", "base64": PIXEL, "mime_type": "image/png"}
    wrong = await found["add"].ainvoke(called("add", {"a": "one", "b": 2}))
    assert (wrong.status, "integer" in wrong.content) == ("error", True)


async def test_a_tool_is_invoked_from_other_threads_and_loops(app: Spindle) -> None:
    [tool] = await tools(app, "add")
    assert await asyncio.to_thread(tool.invoke, {"a": 1, "b": 2}) == "3"
    assert await asyncio.to_thread(lambda: asyncio.run(tool.ainvoke({"a": 2, "b": 2}))) == "4"
    with pytest.raises(RuntimeError, match=r"would block the event loop .* use `ainvoke`"):
        tool.invoke({"a": 1, "b": 2})


def test_the_same_for_code_that_blocks() -> None:
    with workspace([add]) as app:
        [tool] = app.wait(lambda s: tools(s))
        assert tool.invoke({"a": 1, "b": 2}) == "3"


async def test_a_pause_goes_through_the_graph_to_whoever_runs_it(
    app: Spindle, model: ModelServer, chat: ChatOpenAI
) -> None:
    model.feed(Turn(calls=[ToolCall("invite", {"who": "ann"}, id="c7")]), "good")
    offered = await tools(app)
    with pytest.raises(CallPaused, match="Where do we eat") as caught:
        await graph(chat, offered).ainvoke({"messages": [("user", "go")]})
    [paused] = caught.value.calls
    assert paused.id == "c7"
    outcome = await app.resume(paused.pauses[0].token, "the harbour")
    assert isinstance(outcome, Finished)
    answer = await tool_message(paused.id, outcome)
    asked = AIMessage("", tool_calls=[called("invite", {"who": "ann"}, "c7")])
    ended = await graph(chat, offered).ainvoke({"messages": [("user", "go"), asked, answer]})
    assert ended["messages"][-1].content == "good"
    assert model.requests[-1].tool_answers[0].text == "ann comes to the harbour"


async def test_an_error_after_a_pause_is_a_message_too(app: Spindle) -> None:
    message = await tool_message("c1", spindle.SpindleError("the kitchen is closed"))
    assert (message.status, unframed(str(message.content))) == ("error", "the kitchen is closed")


# --- into the catalog


@langchain_tool
def area(width: float, height: float = 1.0) -> float:
    """Multiply two lengths."""
    return width * height


@langchain_tool
async def fail(reason: str) -> str:
    """Fail for a reason."""
    raise ToolException(reason)


@langchain_tool
def injected(text: str, call_id: Annotated[str, InjectedToolCallId]) -> str:
    """Wants what the model is not asked for."""
    return f"{text} {bool(call_id)}"


@langchain_tool(response_format="content_and_artifact")
def drawn() -> tuple[list[dict[str, Any]], int]:
    """Draw something."""
    return [
        {"type": "text", "text": "look:"},
        {"type": "image", "base64": PIXEL, "mime_type": "image/png"},
    ], 1


async def test_tools_of_langchain_in_a_catalog() -> None:
    forgiving = StructuredTool.from_function(
        coroutine=fail.coroutine, name="forgiving", description="Says so.", handle_tool_error=True
    )
    offered = [from_langchain(tool) for tool in (area, fail, injected, drawn, forgiving)]
    async with workspace(offered) as app:
        shown = await app.show("area")
        assert shown.description == "Multiply two lengths."
        assert shown.input_schema["properties"]["height"]["default"] == 1.0
        assert shown.input_schema["required"] == ["width"]
        assert (await app.call("area", width=3, height=2)).text == "6.0"
        with pytest.raises(spindle.SpindleError, match="do not fit"):
            await app.call("area", width="wide")
        for name in ("fail", "forgiving"):
            failed = await app.call(name, reason="no paper")
            assert (failed.is_error, failed.text) == (True, "no paper")
        assert "call_id" not in (await app.show("injected")).input_schema["properties"]
        assert (await app.call("injected", text="given:")).text == "given: True"
        assert [block.type for block in (await app.call("drawn")).content] == ["text", "image"]


async def test_there_and_back_again_nothing_is_lost() -> None:
    async with workspace([add]) as app:
        [out] = await tools(app)
        async with workspace([from_langchain(out)]) as other:
            result = await other.call("add", a=1, b=2)
            assert result.structured == 3
            assert (await other.show("add")).input_schema == (await app.show("add")).input_schema


async def test_a_tool_that_was_not_taken_through_its_adapter_is_told() -> None:
    notes: list[str] = []
    async with workspace([area], note=notes.append) as app:
        await app.sync()
        assert await app.tools() == []
    assert "a tool of another library is taken through its adapter in spindle.adapters" in notes[0]


def test_what_is_no_tool_of_langchain_is_refused() -> None:
    with pytest.raises(TypeError, match="not a tool of LangChain"):
        from_langchain(add)  # type: ignore[arg-type]


def test_without_the_library_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib
    import sys

    for module, missing, package in (
        ("spindle.adapters.langchain", "langchain_core.tools", "pip install langchain-core"),
        ("spindle.adapters.pydantic_ai", "pydantic_ai", r"pip install 'spindle-tools\[agent\]'"),
        ("spindle.adapters.openai_agents", "agents", "pip install openai-agents"),
    ):
        monkeypatch.delitem(sys.modules, module, raising=False)
        monkeypatch.setitem(sys.modules, missing, None)
        with warnings.catch_warnings(), pytest.raises(ImportError, match=package):
            importlib.import_module(module)
