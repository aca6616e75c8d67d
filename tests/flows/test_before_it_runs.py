"""A flow that would certainly fail is refused before its first node has done anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from servers.flow_tools import OpenFlows
from spindle import Finished, tool
from spindle.errors import NotFoundError, SpindleError
from spindle.flows import Flow, Node, ToolNode
from spindle.flows.problems import BrokenFlowError

BROKEN = {
    "inputs": {"text": {"type": "string"}},
    "nodes": [
        {"id": "first", "tool": "send", "params": {"text": "${text}"}},
        {"id": "second", "tool": "no_such_tool"},
    ],
    "edges": [{"from": "first", "to": "second"}],
}


class Sent:
    def __init__(self) -> None:
        self.texts: list[str] = []

        @tool
        def send(text: str) -> str:
            self.texts.append(text)
            return "sent"

        @tool
        def count(text: str) -> dict[str, int]:
            return {"words": len(text.split())}

        self.tools = [send, count]


def save(root: Path, document: dict[str, Any], name: str = "broken") -> Path:
    path = root / "flows" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document, indent=1))
    return path


async def test_a_file_with_an_unknown_tool_does_nothing(opened: OpenFlows, tmp_path: Path) -> None:
    sent = Sent()
    path = save(tmp_path, BROKEN)
    async with opened(tools=sent.tools) as app:
        with pytest.raises(BrokenFlowError, match=r"broken\.json:\d+: second: there is no tool"):
            await app.run_flow(str(path), text="hello")
        assert await app.flows.runs() == []
    assert sent.texts == []


async def test_a_flow_called_as_a_tool_does_nothing(opened: OpenFlows, tmp_path: Path) -> None:
    sent = Sent()
    save(tmp_path, BROKEN)
    async with opened(tools=sent.tools) as app:
        await app.sync()
        with pytest.raises(SpindleError, match=r"broken\.json:\d+: second: there is no tool"):
            await app.call("broken", text="hello")
    assert sent.texts == []


async def test_a_flow_called_as_a_tool_is_checked_again_when_a_tool_has_changed(
    opened: OpenFlows, tmp_path: Path
) -> None:
    save(
        tmp_path,
        {
            "nodes": [{"id": "a", "tool": "send", "params": {"text": "x"}}, {"id": "b", "tool": "later.it"}],
            "edges": [{"from": "a", "to": "b"}],
        },
        "grows",
    )
    sent = Sent()
    (tmp_path / "later").mkdir()
    toml = tmp_path / "spindle.toml"
    toml.write_text(toml.read_text() + '\n[sources.later]\nkind = "python"\npath = "later"\n')
    async with opened(tools=sent.tools) as app:
        await app.sync()
        for _ in range(2):
            with pytest.raises(SpindleError, match="there is no tool"):
                await app.call("grows")
        assert sent.texts == []
        (tmp_path / "later" / "it.py").write_text(
            "from spindle import tool\n\n@tool\ndef it() -> str:\n    return 'done'\n"
        )
        await app.sync()
        assert (await app.call("grows")).value == "done"
    assert sent.texts == ["x"]


async def test_a_wrong_type_between_nodes_is_found_first(opened: OpenFlows) -> None:
    sent = Sent()
    first = ToolNode("send", params={"text": "x"})
    count = ToolNode("count", params={"text": "a b"})
    last = ToolNode("send", id="last", params={"text": "${count.words}"})
    first >> count >> last
    async with opened(tools=sent.tools) as app:
        with pytest.raises(BrokenFlowError, match="is an integer, but should be a string"):
            await app.run_flow(Flow(first))
    assert sent.texts == []


async def test_the_tools_of_a_flow_with_python_parts_are_looked_for(opened: OpenFlows) -> None:
    sent = Sent()

    class Own(Node):
        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
            shared["text"] = "from python"

    own, first = Own(), ToolNode("send")
    own >> first >> Flow(ToolNode("no_such_tool"), id="inside")
    async with opened(tools=sent.tools) as app:
        with pytest.raises(NotFoundError, match="node 'no_such_tool': there is no tool"):
            await app.run_flow(Flow(own, name="mixed"))
    assert sent.texts == []


async def test_one_node_alone_runs_though_others_are_broken(opened: OpenFlows, tmp_path: Path) -> None:
    sent = Sent()
    path = save(tmp_path, BROKEN)
    async with opened(tools=sent.tools) as app:
        outcome = await app.flows.run(str(path), {"text": "a"}, start="first", only=True)
    assert isinstance(outcome, Finished)
    assert sent.texts == ["a"]


async def test_values_that_were_not_declared_count_as_given(opened: OpenFlows) -> None:
    async with opened() as app:
        outcome = await app.run_flow(Flow(ToolNode("same", params={"value": "${free.key}"})), free={"key": 1})
    assert isinstance(outcome, Finished)
    assert outcome.result.value == {"value": 1}
