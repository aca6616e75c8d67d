"""A node is added to a flow's text, and everything else of it stays as somebody wrote it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spindle.errors import FlowError, InvalidArgumentsError
from spindle.flows.problems import BrokenFlowError
from spindle.flows.text.extending import extended
from spindle.flows.text.files import read

NOTES = """\
# What we say.
inputs:
  text: {type: string}
nodes:  # in this order
  - id: first
    tool: echo
    params: {text: "${text}"}   # as it came

  # The second.
  - id: again
    tool: echo
    params:
      text: |
        two
        lines

# Below here nothing changes.
outputs:
  said: ${again}
"""
PARAMS: dict[str, Any] = {"text": 'a: "b"\n#c', "count": 2, "note": None, "price": "$${free}"}


def test_a_node_is_added_to_yaml_and_comments_stay() -> None:
    made = extended(NOTES, "yaml", "shop.echo", PARAMS)
    assert (made.id, made.after, made.nodes) == ("echo", "first", ("first", "again"))
    for line in NOTES.splitlines():
        assert line in made.text.splitlines()
    flow = read(made.text, "yaml").definition
    assert [node.id for node in flow.nodes] == ["first", "again", "echo"]
    assert flow.nodes[-1].tool == "shop.echo"
    assert flow.nodes[-1].params == PARAMS
    assert [(edge.source, edge.target) for edge in flow.edges] == [("first", "echo")]
    assert made.text.index("tool: shop.echo") < made.text.index("# Below here")
    # The list of edges that was made is added to, after any node, and no id is taken twice.
    more = extended(made.text, "yaml", "other.echo", {}, after="again")
    assert (more.id, more.after) == ("echo_2", "again")
    flow = read(more.text, "yaml").definition
    assert [(edge.source, edge.target) for edge in flow.edges] == [("first", "echo"), ("again", "echo_2")]
    assert flow.nodes[-1].params == {}


def test_a_node_is_added_to_json() -> None:
    text = json.dumps({"name": "a", "nodes": [{"id": "x", "tool": "echo"}], "max_visits": 7})
    made = json.loads(extended(text, "json", "say", {"text": "hi"}).text)
    assert made["max_visits"] == 7
    assert made["nodes"][1] == {"id": "say", "tool": "say", "params": {"text": "hi"}}
    assert made["edges"] == [{"from": "x", "to": "say"}]


@pytest.mark.parametrize(
    "text",
    [
        "nodes: [{id: a, tool: echo}]\n",
        "{nodes: [{id: a, tool: echo}]}\n",
        "nodes:\n- {id: a, tool: echo}\nedges: []\n",
        "nodes: &all\n- {id: a, tool: echo}\n",
        '"nodes":\n- {id: a, tool: echo}\n',
    ],
)
def test_what_is_written_in_another_way_is_left_alone(text: str) -> None:
    read(text, "yaml")
    with pytest.raises(FlowError, match="lines with dashes"):
        extended(text, "yaml", "say", {})


def test_what_cannot_be_extended_says_why() -> None:
    with pytest.raises(InvalidArgumentsError, match="no node 'nowhere'"):
        extended(NOTES, "yaml", "say", {}, after="nowhere")
    with pytest.raises(BrokenFlowError):
        extended("nodes: [", "yaml", "say", {})


def test_a_flow_goes_on_where_it_usually_ends() -> None:
    text = "nodes:\n- {id: a, tool: echo}\n- {id: b, tool: echo}\n- {id: sorry, tool: echo}\nedges:\n"
    text += "- {from: a, to: b}\n- {from: b, to: sorry, action: error}\n"
    assert extended(text, "yaml", "say", {}).after == "b"
    loop = text + "- {from: b, to: a}\n- {from: sorry, to: a}\n"
    assert extended(loop, "yaml", "say", {}).after == "sorry"


def test_an_odd_name_of_a_tool_becomes_an_id() -> None:
    text = "nodes:\n- {id: a, tool: echo}\n- {id: _, tool: echo}\n"
    assert extended(text, "yaml", "shop.<b> ü", {}).id == "_b_"
    assert extended(text, "yaml", "shop.", {}).id == "node"
    assert extended(text, "yaml", "shop.日本", {}).id == "__2"
