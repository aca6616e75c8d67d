"""Flows as pictures."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.strategies import DEFINITIONS
from servers.examples import examples
from spindle.flows.check.graph import Graph
from spindle.flows.definition import Batch, Edge, FlowDefinition, NodeDefinition, Question
from spindle.flows.draw.layout import laid_out
from spindle.flows.draw.pictures import mermaid, svg

SVG = "{http://www.w3.org/2000/svg}"
FLOW = FlowDefinition(
    (
        NodeDefinition("search", tool="github.search_code", batch=Batch("${x}")),
        NodeDefinition("which", ask=Question('Which "channel" of <dev> & co?')),
        NodeDefinition(
            "send",
            flow=FlowDefinition(
                (NodeDefinition("a", tool="t.a"), NodeDefinition("b", tool="t.b")), (Edge("a", "b"),)
            ),
        ),
        NodeDefinition("tell", tool="log.write"),
    ),
    (
        Edge("search", "which"),
        Edge("search", "tell", "error"),
        Edge("search", "tell", "timeout"),
        Edge("which", "send"),
        Edge("which", "search", "refused"),
        Edge("send", "search", "again"),
    ),
    name="a & b",
)


def test_mermaid_shows_boxes_labels_and_inner_flows() -> None:
    assert mermaid(FLOW) == (
        "flowchart TD\n"
        '  n0["search<br/><small>github.search_code for each</small>"]\n'
        '  n1(["which<br/><i>Which #34;channel#34; of #60;dev#62; #38; co?</i>"])\n'
        '  subgraph n2["send"]\n'
        '    n2_0["a<br/><small>t.a</small>"]\n'
        '    n2_1["b<br/><small>t.b</small>"]\n'
        "    n2_start(( )) --> n2_0\n"
        "    n2_0 --> n2_1\n"
        "  end\n"
        '  n3["tell<br/><small>log.write</small>"]\n'
        "  nstart(( )) --> n0\n"
        "  n0 --> n1\n"
        '  n0 -.->|"error, timeout"| n3\n'
        "  n1 --> n2\n"
        '  n1 -.->|"refused"| n0\n'
        '  n2 -->|"again"| n0\n'
    )


def test_svg_shows_every_node_and_every_way() -> None:
    root = ElementTree.fromstring(svg(FLOW))
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert {"search", "which", "send", "tell", "a", "b"} <= set(texts)
    assert 'Which "channel" of <dev> & co?' in texts
    assert {"error, timeout", "refused", "again"} <= set(texts)
    lines = [element.get("class") for element in root.iter(f"{SVG}path")]
    assert lines.count("line error") == 2
    assert lines.count("line") == 6  # four ways without an error, and two starts
    assert root.find(f"{SVG}title").text == "a & b"  # type: ignore[union-attr]
    assert "prefers-color-scheme: dark" in svg(FLOW)


@examples(60)
@given(DEFINITIONS)
def test_any_flow_can_be_drawn(definition: FlowDefinition) -> None:
    root = ElementTree.fromstring(svg(definition))
    drawn = sum(1 for _ in root.iter(f"{SVG}rect"))
    assert drawn == 1 + _count(definition)
    assert all(float(number) >= 0 for number in re.findall(r"\d+", root.get("viewBox") or "-1"))
    assert mermaid(definition).count('["') >= 1


def _count(definition: FlowDefinition) -> int:
    return sum(1 + (_count(node.flow) if node.flow is not None else 0) for node in definition.nodes)


@given(
    st.integers(1, 25),
    st.lists(st.tuples(st.integers(0, 24), st.integers(0, 24), st.sampled_from(["default", "error", "x"]))),
)
def test_no_box_covers_another_and_all_is_within_the_picture(
    count: int, ways: list[tuple[int, int, str]]
) -> None:
    names = [f"n{index}" for index in range(count)]
    edges = tuple(Edge(names[one % count], names[other % count], action) for one, other, action in ways)
    graph = Graph(FlowDefinition(tuple(NodeDefinition(name, tool="t") for name in names), edges))
    sizes = {name: (80.0 + 13 * (index % 4), 40.0) for index, name in enumerate(names)}
    layout = laid_out(graph, sizes, {(edge.source, edge.target): 30.0 for edge in edges})
    corners = [(x, y, x + sizes[name][0], y + sizes[name][1]) for name, (x, y) in layout.boxes.items()]
    for index, (left, top, right, bottom) in enumerate(corners):
        assert left >= -0.01
        assert right <= layout.width + 0.01
        assert bottom <= layout.height + 0.01
        for other in corners[index + 1 :]:
            apart = right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top
            assert apart, (corners[index], other)
    assert {(line.source, line.target) for line in layout.lines} == {
        (edge.source, edge.target) for edge in edges
    }


@pytest.mark.parametrize("text", ["</text><script>", "a\x00b", "\ud800".encode("utf-8", "replace").decode()])
def test_what_a_flow_says_cannot_break_the_picture(text: str) -> None:
    flow = FlowDefinition((NodeDefinition("a", ask=Question(text)),))
    root = ElementTree.fromstring(svg(flow))
    assert root.find(f".//{SVG}script") is None
    assert "<script" not in mermaid(flow)
