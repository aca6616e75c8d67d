"""Pauses of calls in graphs of LangGraph: its own interrupts, and nothing done twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Send

import spindle
from spindle.adapters import graph_pauses
from spindle.adapters.langchain import tools
from spindle.app import Spindle
from spindle.calls.framing import unframed

THREAD: Any = {"configurable": {"thread_id": "t1"}}


class Kitchen:
    """Tools that count how often they did something."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def tools(self) -> list[Any]:
        def buy(what: str) -> str:
            """Buy something."""
            self.done.append(f"buy {what}")
            return f"bought {what}"

        def order(what: str, context: spindle.Context) -> str:
            """Order something, if that is allowed."""
            if not context.approve(f"Order {what}?"):
                return f"no {what}"
            self.done.append(f"order {what}")
            return f"ordered {what}"

        def invite(who: str, context: spindle.Context) -> str:
            """Invite somebody."""
            place = context.ask(f"Where do you meet {who}?")
            when = context.ask(f"When do you meet {who}?") if who == "cat" else "noon"
            self.done.append(f"invite {who}")
            return f"{who} at {place}, {when}"

        return [buy, order, invite]


@pytest.fixture
def kitchen() -> Kitchen:
    return Kitchen()


@pytest.fixture
async def app(tmp_path: Path, kitchen: Kitchen) -> AsyncIterator[Spindle]:
    (tmp_path / "spindle.toml").write_text("")
    async with spindle.open(tmp_path, tools=kitchen.tools()) as opened:
        yield opened


def called(*calls: tuple[str, str]) -> AIMessage:
    names = {"buy": "what", "order": "what", "invite": "who"}
    asked = [
        {"type": "tool_call", "id": f"c{number}", "name": name, "args": {names[name]: value}}
        for number, (name, value) in enumerate(calls)
    ]
    return AIMessage("", tool_calls=asked)


def graph(offered: list[Any], saver: InMemorySaver, *, apart: bool = False) -> Any:
    """All calls in one node, or each in a task of its own, as `create_agent` has them."""
    built = StateGraph(MessagesState)
    built.add_node("begin", lambda state: {})
    built.add_node("tools", ToolNode(offered))
    built.add_edge(START, "begin")

    def fan(state: MessagesState) -> Any:
        return [Send("tools", [call]) for call in state["messages"][-1].tool_calls] if apart else "tools"

    built.add_conditional_edges("begin", fan, ["tools"])
    built.add_edge("tools", END)
    return built.compile(checkpointer=saver)


def answers(state: dict[str, Any]) -> dict[str, str]:
    return {
        message.tool_call_id: unframed(str(message.content))
        for message in state["messages"]
        if isinstance(message, ToolMessage)
    }


def waiting(state: dict[str, Any]) -> list[dict[str, Any]]:
    return [pause for it in state["__interrupt__"] for pause in it.value["pauses"]]


@pytest.mark.parametrize("apart", [False, True], ids=["one node", "a task for each"])
async def test_a_pause_is_an_interrupt_and_the_call_beside_it_is_made_once(
    app: Spindle, kitchen: Kitchen, apart: bool
) -> None:
    made = graph(await tools(app), InMemorySaver(), apart=apart)
    first = await made.ainvoke({"messages": [called(("buy", "fish"), ("order", "wine"))]}, THREAD)
    [pause] = waiting(first)
    assert (pause["kind"], pause["message"], kitchen.done) == ("approval", "Order wine?", ["buy fish"])
    last = await made.ainvoke(Command(resume=True), THREAD)
    assert answers(last) == {"c0": "bought fish", "c1": "ordered wine"}
    assert kitchen.done == ["buy fish", "order wine"]
    assert graph_pauses._steps == {}


async def test_without_an_answer_it_waits_on_and_what_was_answered_elsewhere_goes_on(
    app: Spindle, kitchen: Kitchen
) -> None:
    made = graph(await tools(app), InMemorySaver())
    first = await made.ainvoke({"messages": [called(("buy", "fish"), ("invite", "ann"))]}, THREAD)
    again = await made.ainvoke(None, THREAD)
    assert waiting(again) == waiting(first)
    await app.resume(waiting(first)[0]["token"], "the harbour")  # such as in the console
    last = await made.ainvoke(None, THREAD)
    assert answers(last) == {"c0": "bought fish", "c1": "ann at the harbour, noon"}
    assert kitchen.done == ["buy fish", "invite ann"]


async def test_several_pauses_of_a_node_are_shown_together_and_answered_by_their_tokens(
    app: Spindle, kitchen: Kitchen
) -> None:
    made = graph(await tools(app), InMemorySaver())
    asked = called(("order", "wine"), ("invite", "ann"), ("order", "fish"), ("buy", "salt"))
    first = await made.ainvoke({"messages": [asked]}, THREAD)
    tokens = {pause["message"]: pause["token"] for pause in waiting(first)}
    assert set(tokens) == {"Order wine?", "Order fish?", "Where do you meet ann?"}
    # A yes without a token could mean any of them, and so means none.
    vague = await made.ainvoke(Command(resume=True), THREAD)
    assert len(waiting(vague)) == 3
    assert "by its token" in vague["__interrupt__"][0].value["problem"]
    assert kitchen.done == ["buy salt"]
    some = {tokens["Order wine?"]: False, tokens["Order fish?"]: True}
    second = await made.ainvoke(Command(resume={"answers": some}), THREAD)
    [left] = waiting(second)
    assert left["message"] == "Where do you meet ann?"
    given = {left["token"]: "the harbour"}
    last = await made.ainvoke(Command(resume={"answers": given}), THREAD)
    assert answers(last) == {
        "c0": "no wine",
        "c1": "ann at the harbour, noon",
        "c2": "ordered fish",
        "c3": "bought salt",
    }
    assert sorted(kitchen.done) == ["buy salt", "invite ann", "order fish"]


async def test_an_answer_that_does_not_fit_is_told_and_an_earlier_one_is_not_taken_again(
    app: Spindle, kitchen: Kitchen
) -> None:
    made = graph(await tools(app), InMemorySaver())
    await made.ainvoke({"messages": [called(("invite", "cat"))]}, THREAD)
    wrong = await made.ainvoke(Command(resume={"not": "a text"}), THREAD)
    assert "does not fit" in wrong["__interrupt__"][0].value["problem"]
    second = await made.ainvoke(Command(resume="the harbour"), THREAD)
    [pause] = waiting(second)
    assert pause["message"] == "When do you meet cat?"
    idle = await made.ainvoke(None, THREAD)  # the first answer is still with LangGraph, and not for this
    assert waiting(idle)[0]["token"] == pause["token"]
    last = await made.ainvoke(Command(resume={"answers": {pause["token"]: "at nine"}}), THREAD)
    assert answers(last) == {"c0": "cat at the harbour, at nine"}
    assert kitchen.done == ["invite cat"]


async def test_a_refusal_reaches_the_tool(app: Spindle, kitchen: Kitchen) -> None:
    made = graph(await tools(app), InMemorySaver())
    await made.ainvoke({"messages": [called(("invite", "ann"))]}, THREAD)
    last = await made.ainvoke(Command(resume={"refused": "not hungry"}), THREAD)
    assert "not hungry" in answers(last)["c0"]
    assert kitchen.done == []


async def test_another_opening_of_the_workspace_goes_on(tmp_path: Path, kitchen: Kitchen) -> None:
    (tmp_path / "spindle.toml").write_text("")
    saver = InMemorySaver()
    async with spindle.open(tmp_path, tools=kitchen.tools()) as app:
        made = graph(await tools(app), saver)
        asked = called(("buy", "fish"), ("order", "wine"))
        await made.ainvoke({"messages": [asked]}, THREAD)
    async with spindle.open(tmp_path, tools=kitchen.tools()) as app:
        last = await graph(await tools(app), saver).ainvoke(Command(resume=True), THREAD)
    assert answers(last) == {"c0": "bought fish", "c1": "ordered wine"}
    assert kitchen.done == ["buy fish", "order wine"]


@pytest.mark.parametrize("threads", [1, 8])
async def test_a_graph_that_blocks_in_threads_is_interrupted_too(
    app: Spindle, kitchen: Kitchen, threads: int
) -> None:
    """A call may ask before the thread of the next has begun. Then it is shown alone."""
    config: Any = THREAD | {"max_concurrency": threads}
    made = graph(await tools(app), InMemorySaver())
    asked: Any = {"messages": [called(("order", "fish"), ("buy", "salt"), ("order", "wine"))]}
    state = await asyncio.to_thread(made.invoke, asked, config)
    shown: set[str] = set()
    while "__interrupt__" in state:
        shown |= {pause["message"] for pause in waiting(state)}
        given = {pause["token"]: True for pause in waiting(state)}
        state = await asyncio.to_thread(made.invoke, Command(resume={"answers": given}), config)
    assert shown == {"Order fish?", "Order wine?"}
    assert answers(state) == {"c0": "ordered fish", "c1": "bought salt", "c2": "ordered wine"}
    assert sorted(kitchen.done) == ["buy salt", "order fish", "order wine"]


async def test_the_same_ids_in_another_thread_or_turn_are_other_calls(app: Spindle, kitchen: Kitchen) -> None:
    """Some models number their calls anew in every answer."""
    made = graph(await tools(app), InMemorySaver())
    for thread in ("a", "b", "b"):
        there: Any = {"configurable": {"thread_id": thread}}
        await made.ainvoke({"messages": [called(("buy", "fish"))]}, there)
    assert kitchen.done == ["buy fish"] * 3


async def test_a_call_that_was_asked_for_twice_under_one_id_is_made_once(
    app: Spindle, kitchen: Kitchen
) -> None:
    made = graph(await tools(app), InMemorySaver())
    asked = called(("order", "wine"), ("order", "wine"))
    asked.tool_calls[1]["id"] = "c0"
    first = await made.ainvoke({"messages": [asked]}, THREAD)
    assert len(waiting(first)) == 1
    last = await made.ainvoke(Command(resume=True), THREAD)
    assert answers(last) == {"c0": "ordered wine"}
    assert kitchen.done == ["order wine"]
