"""Servers that answer JSON as text: nodes see the value, and those that want text get the text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import spindle
from servers.flow_tools import TOOLS, OpenFlows
from spindle import Finished, Result, tool
from spindle.domain.text_values import as_text, value_of_text
from spindle.errors import FlowError
from spindle.flows import Batch, Flow, ToolNode

SPACED = '{"items": [ {"n": 1}, {"n": 2} ], "more": {"next": "b"}}\n'


@tool
def answer(text: str) -> Result:
    """Answer as many MCP servers do: a text, and nothing else."""
    return Result.of_text(text)


@tool
def quoted(text: str) -> str:
    return f"<{text}>"


async def run(opened: OpenFlows, text: str, *nodes: ToolNode, parse: Any = "auto") -> Any:
    first = ToolNode("answer", params={"text": "${given}"}, parse=parse)
    last: ToolNode = first
    for node in nodes:
        last = last >> node
    async with opened(tools=[*TOOLS, answer, quoted]) as app:
        outcome = await app.run_flow(Flow(first), given=text)
    assert isinstance(outcome, Finished)
    return outcome.result.value


async def test_paths_and_keys_reach_into_it(opened: OpenFlows) -> None:
    shown = ToolNode("same", params={"value": ["${answer.items[1].n}", "${more.next}", "${items[0]}"]})
    assert await run(opened, SPACED, shown) == {"value": [2, "b", {"n": 1}]}


async def test_a_batch_goes_over_it(opened: OpenFlows) -> None:
    each = ToolNode("add", params={"a": "${item.n}"}, batch=Batch("${answer.items}"))
    assert await run(opened, SPACED, each) == [2, 3]


async def test_an_argument_that_takes_text_gets_the_text_as_it_came(opened: OpenFlows) -> None:
    assert await run(opened, SPACED, ToolNode("quoted", params={"text": "${answer}"})) == f"<{SPACED}>"


async def test_a_flow_that_ends_with_it_gives_the_text_too(opened: OpenFlows) -> None:
    async with opened(tools=[answer]) as app:
        outcome = await app.run_flow(Flow(ToolNode("answer")), text=SPACED)
    assert isinstance(outcome, Finished)
    assert (outcome.result.text, outcome.result.structured["more"]) == (SPACED, {"next": "b"})


async def test_a_text_that_is_not_json_stays_one(opened: OpenFlows) -> None:
    for text in ("hello", "{not json}", "[1, 2", "3", '"quoted"', "", "{} {}"):
        assert await run(opened, text, ToolNode("same", params={"value": "${answer}"})) == {"value": text}


async def test_a_node_can_leave_it_alone(opened: OpenFlows) -> None:
    shown = ToolNode("same", params={"value": "${answer}"})
    assert await run(opened, SPACED, shown, parse="text") == {"value": SPACED}


async def test_a_node_can_insist(opened: OpenFlows) -> None:
    shown = ToolNode("same", params={"value": "${answer}"})
    assert await run(opened, "3", shown, parse="json") == {"value": 3}
    with pytest.raises(FlowError, match="node 'answer': answer should return JSON"):
        await run(opened, "oops", shown, parse="json")


async def test_the_result_of_a_call_stays_as_it_came(opened: OpenFlows) -> None:
    async with opened(tools=[answer]) as app:
        result = await app.call("answer", text=SPACED)
    assert (result.has_structured, result.text) == (False, SPACED)


@given(st.text(max_size=200))
def test_any_text_has_a_value_and_keeps_its_text(text: str) -> None:
    value = value_of_text(text, "auto")
    assert value == text or as_text(value) == text


async def test_a_source_says_it_for_its_tools_and_a_node_for_itself(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "t.py").write_text(
        "from spindle import Result, tool\n\n@tool\ndef listed() -> Result:\n"
        "    return Result.of_text('{\"n\": [1]}')\n\n@tool\ndef plain() -> Result:\n"
        "    return Result.of_text('no json')\n"
    )

    async def value(parse: str | None, name: str, node: Any = None) -> Any:
        setting = "" if parse is None else f'[sources.tools]\nparse = "{parse}"\n'
        (tmp_path / "spindle.toml").write_text(setting)
        async with spindle.open(tmp_path) as app:
            outcome = await app.run_flow(Flow(ToolNode(name, parse=node)))
            result = await app.call(name)
        assert isinstance(outcome, Finished)
        assert not result.has_structured, "the call's own result stays as it came"
        return outcome.result.value

    assert await value(None, "listed") == {"n": [1]}
    assert await value("text", "listed") == '{"n": [1]}'
    assert await value("text", "listed", "json") == {"n": [1]}
    assert await value("json", "plain", "text") == "no json"
    with pytest.raises(FlowError, match="plain should return JSON"):
        await value("json", "plain")


def test_a_result_is_parsed_on_demand() -> None:
    result = Result.of_text('{"a": 1}')
    assert (result.value, result.parsed()) == ('{"a": 1}', {"a": 1})
    assert Result.of_text("3").parsed() == "3"
    assert Result.of_text("3").parsed("json") == 3
    with pytest.raises(ValueError, match="Expecting value"):
        Result.of_text("no").parsed("json")
