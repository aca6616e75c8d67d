"""A flow is read once and its nodes are made once, however it is run."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from spindle.flows.definition import FlowDefinition
from spindle.flows.flow import Flow
from spindle.flows.node import BaseNode

TOOLS = """
from spindle import Context, tool

@tool
def upper(text: str) -> str:
    return text.upper()

@tool
def same(text: str) -> str:
    return text

@tool
def sure(text: str, context: Context) -> str:
    return context.ask(f"{text}?", str)
"""

FILE = """
version: 1
nodes:
- {id: one, tool: upper, params: {text: a}}
- {id: two, tool: same, params: {text: "${one}"}}
edges:
- {from: one, to: two}
"""


@pytest.fixture
def made(workspace: Any, spindle: Any, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each was made or read: definitions, nodes by id, documents."""
    counted: Counter[str] = Counter()
    workspace.write("tools/words.py", TOOLS)
    spindle("sync")

    def count(owner: Any, name: str, label: Callable[..., str]) -> None:
        function = getattr(owner, name)

        def counting(*given: Any, **named: Any) -> Any:
            value = function(*given, **named)
            counted[label(*given)] += 1
            return value

        monkeypatch.setattr(owner, name, counting)

    def node_label(node: BaseNode, *_: Any) -> str:
        return "flow" if isinstance(node, Flow) else "node"

    import spindle.flows.text.document
    import spindle.flows.text.files
    import spindle.flows.text.pipe
    import spindle.flows.text.writing

    count(FlowDefinition, "__init__", lambda *_: "definition")
    count(BaseNode, "__init__", node_label)
    for module in [module for name, module in sys.modules.items() if name.startswith("spindle.flows")]:
        for name in ("from_document", "to_document", "read_pipe"):
            if hasattr(module, name):
                count(module, name, lambda *_, name=name: name)
    return counted


def test_a_pipe_is_read_once_and_its_nodes_are_made_once(made: Counter[str], spindle: Any) -> None:
    assert spindle("run", "-q", "upper --text=a >> same").out == "A\n"
    assert made == {"read_pipe": 1, "definition": 1, "flow": 1, "node": 2, "to_document": 1}


def test_one_tool_is_a_flow_of_one_node(made: Counter[str], spindle: Any) -> None:
    assert spindle("run", "-q", "upper", "--text=a").out == "A\n"
    assert made == {"read_pipe": 1, "definition": 1, "flow": 1, "node": 1, "to_document": 1}


def test_a_saved_flow_is_read_once(made: Counter[str], workspace: Any, spindle: Any) -> None:
    workspace.write("flows/filed.yaml", FILE)
    spindle("sync")  # which reads it too
    made.clear()
    assert spindle("run", "-q", "filed").out == "A\n"
    # The name of the file becomes the name of the flow: a copy of the definition.
    assert made == {"from_document": 1, "definition": 2, "flow": 1, "node": 2, "to_document": 1}


def test_a_flow_is_made_once_to_be_run_from_a_node_on(made: Counter[str], spindle: Any) -> None:
    spindle("run", "-q", "upper --text=a >> same")
    made.clear()
    assert spindle("run", "-q", "--from=same", "upper --text=a >> same").out == "A\n"
    # The record that it goes on from is read too, for what is secret in it.
    assert made == {"read_pipe": 1, "definition": 2, "flow": 1, "node": 2, "to_document": 1}


def test_a_run_that_is_resumed_is_made_of_its_record(made: Counter[str], spindle: Any) -> None:
    paused = spindle("run", "--json", "upper --text=a >> sure")
    assert paused.code == 75
    made.clear()
    assert spindle("resume", "last", "yes").out == "yes\n"
    assert made == {"definition": 1, "flow": 1, "node": 2}
