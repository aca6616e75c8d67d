"""Flows that are run again: built and judged once for what defines them, and anew for anything else."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from servers.flow_tools import OpenFlows
from spindle import Finished, tool
from spindle.flows import Flow, Node, ToolNode
from spindle.flows.build import DefinedFlow, build, definition_of
from spindle.flows.check import before
from spindle.flows.check.check import check
from spindle.flows.made_flows import MAX_NODES, MadeFlows
from spindle.flows.text.files import read


@tool
async def joined(words: list[str]) -> str:
    """Joins words."""
    return " ".join(words)


@tool
async def same(text: str) -> str:
    """Returns the text."""
    return text


def chain(*nodes: ToolNode) -> Flow:
    for one, other in itertools.pairwise(nodes):
        one >> other
    return Flow(nodes[0])


async def value_of(app: Any, flow: Flow) -> Any:
    outcome = await app.run_flow(flow)
    assert isinstance(outcome, Finished)
    return outcome.result.value


async def test_a_flow_that_is_run_again_is_judged_once(
    opened: OpenFlows, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[str] = []

    async def counted(*args: Any, **options: Any) -> Any:
        judged.append("judged")
        return await check(*args, **options)

    monkeypatch.setattr(before, "check", counted)
    async with opened(tools=[same]) as app:
        for _ in range(3):  # each time another flow that says the same
            assert await value_of(app, Flow(ToolNode("same", params={"text": "a"}))) == "a"
        assert judged == ["judged"]
        assert await value_of(app, Flow(ToolNode("same", params={"text": "b"}))) == "b"
        assert judged == ["judged"] * 2


async def test_a_program_may_change_the_values_of_a_flow_between_its_runs(opened: OpenFlows) -> None:
    words = ["one"]
    changing = Flow(ToolNode("joined", params={"words": words}))
    async with opened(tools=[joined]) as app:
        assert await value_of(app, changing) == "one"
        words.append("two")
        # Another flow that says what the first said before it was changed.
        assert await value_of(app, Flow(ToolNode("joined", params={"words": ["one"]}))) == "one"
        assert await value_of(app, changing) == "one two"
        words.pop()
        assert await value_of(app, changing) == "one"


def test_a_flow_is_kept_unless_it_is_very_long() -> None:
    made = MadeFlows({})
    short = chain(*(ToolNode("same", id=f"n{number}") for number in range(3)))
    long = chain(*(ToolNode("same", id=f"n{number}") for number in range(MAX_NODES + 1)))
    assert made.of(short)[0] is made.of(definition_of(short))[0]
    assert made.of(long)[0] is not made.of(long)[0]


async def test_others_have_their_turn_between_the_nodes_of_a_flow(opened: OpenFlows) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    nodes = [ToolNode("same", id=f"n{number}", params={"text": "x"}) for number in range(20)]
    async with opened(tools=[same]) as app:
        await value_of(app, Flow(ToolNode("same", params={"text": "x"})))
        counting = asyncio.create_task(count())
        await value_of(app, chain(*nodes))
        counting.cancel()
    assert turns >= len(nodes)


async def test_a_loop_of_calls_that_wait_for_nothing_can_be_ended(opened: OpenFlows) -> None:
    async with opened(tools=[same]) as app:

        async def endless() -> None:
            async with asyncio.timeout(0.05):
                while True:
                    await app.call("same", text="x")

        with pytest.raises(TimeoutError):
            await endless()


def test_words_are_found_wherever_a_flow_may_hold_them() -> None:
    class Own(Node):
        pass

    own = Own()
    own >> Flow(ToolNode("same", params={"text": "${now()}"}), id="inner")
    assert Flow(own).mentions("now(")
    with_condition = ToolNode("same", id="first", params={"text": "a"})
    with_condition.when("now() > '2020'") >> ToolNode("same", id="second")
    for flow in (Flow(with_condition), build(definition_of(Flow(with_condition)))):
        assert flow.mentions("now(")
        assert not flow.mentions("secrets")
    given = build(definition_of(Flow(ToolNode("same", params={"text": "a"}))))
    given.params = {"text": "${secrets.KEY}"}
    assert given.mentions("secrets")


def test_a_text_that_says_the_same_is_the_same_flow_with_the_places_that_it_has_now() -> None:
    made = MadeFlows({})
    line = '{"id": "one", "tool": "same", "params": {"text": "a"}}'
    first, _ = made.of(read(f'{{"nodes": [{line}]}}', "json", "flows/a.json"))
    again = read(f'{{"nodes":\n\n[{line}]}}', "json", "flows/a.json")
    assert made.of(again)[0] is first
    assert isinstance(first, DefinedFlow)
    assert first.positions is again.positions
    other = read(f'{{"nodes": [{line.replace("same", "other")}]}}', "json", "flows/a.json")
    elsewhere = read(f'{{"nodes": [{line}]}}', "json", "flows/b.json")
    assert first is not made.of(other)[0]
    assert first is not made.of(elsewhere)[0]
