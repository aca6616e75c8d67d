"""Conditions of edges, values by name and loops: in Python, checked, drawn, planned, read and written."""

from __future__ import annotations

from typing import Any

import pytest

from servers.flow_tools import TOOLS, OpenFlows
from spindle import Finished
from spindle.errors import FlowError
from spindle.flows import Flow, FlowLoop, Node, ToolNode, Transform, inline
from spindle.flows.build import definition_of
from spindle.flows.check.check import check
from spindle.flows.draw.pictures import mermaid, svg
from spindle.flows.plan import plan
from spindle.flows.problems import BrokenFlowError
from spindle.flows.text.document import from_document
from spindle.flows.text.files import read
from spindle.flows.text.writing import to_document

TICKET = """
inputs:
  state: {enum: [open, closed, merged]}
  age: {type: integer}
  urgent: {type: boolean}
  note: {type: string}
  rows: {type: array, items: {type: object, properties: {n: {type: integer}}, additionalProperties: false}}
nodes:
- {id: start, tool: items}
- {id: a, tool: nothing}
- {id: b, tool: nothing}
- {id: c, tool: nothing}
edges:
"""
LINE = len(TICKET.splitlines())


def edges(*whens: str | None) -> str:
    """The edges from `start` to a, b and c."""
    lines = [
        f"- {{from: start, to: {target}" + (f", when: {when!r}}}" if when is not None else "}")
        for target, when in zip("abc", whens, strict=False)
    ]
    return TICKET + "\n".join(lines)


async def problems(opened: OpenFlows, text: str) -> list[str]:
    async with opened() as app:
        loaded = read(text, "yaml", "f.yaml")
        found = await check(loaded.definition, app.show, loaded.positions, loaded.place)
    return [
        f"{problem.severity} {(problem.line or 0) - LINE}: {problem.message}"
        for problem in found
        if "is never reached" not in problem.message and "reached from" not in problem.message
    ]


@pytest.mark.parametrize(
    ("whens", "expected"),
    [
        (["age > 3", "else"], []),
        (["state == 'open'", "state == 'closed'", "state == 'merged'"], []),
        (["urgent", "not urgent"], []),
        (["age > 3", "not (age > 3)"], []),
        (["len(rows) > 1", "else"], []),
        (["any(rows, item.n > 3)", "else"], []),
        (["age > 3"], ["warning 1: 'start' has no edge for what none of its conditions holds for"]),
        (["state == 'open'", "state == 'closed'"], ["warning 2: 'start' has no edge for state = 'merged'"]),
        (["urgent"], ["warning 1: 'start' has no edge for urgent = False"]),
        (["else", "age > 3"], ["error 2: 'start': this edge is never taken: `else` before it always is"]),
        (["true", "age > 3"], ["warning 1: 'start': `true` is always true",
                               "error 2: 'start': this edge is never taken: `true` before it always is"]),
        (["1 > 2", "else"], ["error 1: 'start': this edge is never taken: `1 > 2` is never true"]),
        (["state == 'opne'", "else"],
         ["error 1: 'start': this edge is never taken: state is one of 'open', 'closed', 'merged'"]),
        (["note == 3", "else"], ["warning 1: start: when: note == 3: a string == an integer is never true"]),
        (["note > 3", "else"], ["error 1: start: when: note > 3: a string and an integer have no order"]),
        (["len(age) > 3", "else"], ["error 1: start: when: len(age) > 3: len needs "
                                    "a list or an object or a string, not an integer"]),
        (["any(rows, item.m > 3)", "else"],
         ["error 1: start: when: any(rows, item.m > 3): item has no key 'm'"]),
        (["aeg > 3", "else"], ["error 1: start: when: aeg: there is no node, input or key 'aeg'"]),
        (["b > 3", "else"], ["error 1: start: when: b: 'b' cannot have run before the edges of 'start'"]),
        (["age >", "else"], ["error 1: start: when: a name or a value is missing (at column 6)"]),
        (["age > 3", None],
         ["error 2: 'start': an edge without `when` stands beside edges with one"]),
    ],
)  # fmt: skip
async def test_what_is_wrong_with_conditions_is_told_with_its_line(
    opened: OpenFlows, whens: list[str | None], expected: list[str]
) -> None:
    assert await problems(opened, edges(*whens)) == expected


async def test_a_flow_with_a_condition_that_is_never_true_does_not_begin(opened: OpenFlows) -> None:
    definition = read(edges("note > 3", "else"), "yaml", "f.yaml").definition
    given = {"state": "open", "age": 1, "urgent": True, "note": "x", "rows": []}
    async with opened() as app:
        with pytest.raises(BrokenFlowError, match="have no order"):
            await app.run_flow(definition, given)
        assert await app.flows.runs() == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- {id: a, tool: x, loop: {while: a, limit: 3}}", "f.yaml:2: `nodes[0]`: a tool has no key 'loop'"),
        ("- {id: a, transform: {x: 1}, retry: {attempts: 2}}",
         "f.yaml:2: `nodes[0]`: a node of values has no key 'retry'"),
        ("- {id: a, transform: {}}", "f.yaml:2: `nodes[0].transform`"),
        ("- {id: a, flow: {nodes: [{id: b, tool: x}]}, loop: {while: b}}",
         "f.yaml:2: `nodes[0].loop` needs 'limit'"),
        ("- {id: a, tool: x}\nedges: [{from: a, to: a, when: 3}]",
         "f.yaml:3: `edges[0].when` must be a string, not an integer"),
    ],
)  # fmt: skip
def test_what_a_file_cannot_say_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(BrokenFlowError) as caught:
        read(f"nodes:\n{text}\n", "yaml", "f.yaml")
    assert message in str(caught.value)


class Number(Node):
    def __init__(self, name: str) -> None:
        super().__init__(id=name)

    def post(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
        shared["n"] = shared.get("n", 0) + 1
        shared.setdefault("seen", []).append(self.id)


def test_conditions_of_nodes_in_python() -> None:
    one, two, three = Number("one"), Number("two"), Number("three")
    one.when("n < 4") >> one
    one.when("seen[-1] == 'one' and n == 4") >> two
    one.when("else") >> three
    shared: dict[str, Any] = {}
    Flow(one).run(shared)
    assert shared["seen"] == ["one"] * 4 + ["two"]


def test_a_condition_of_an_action_in_python() -> None:
    class Asked(Number):
        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
            super().post(shared, prep_res, exec_res)
            return "found"

    one, two, three = Asked("one"), Number("two"), Number("three")
    (one - "found").when("n > 5") >> two
    (one - "found").when("else") >> three
    shared: dict[str, Any] = {}
    Flow(one).run(shared)
    assert shared["seen"] == ["one", "three"]


def test_a_node_may_call_its_own_attributes_what_it_likes() -> None:
    class Own(Number):
        def __init__(self) -> None:
            super().__init__("own")
            self.actions, self.conditions, self.chosen = ["a"], {"b": 1}, "c"

    own = Own()
    own.when("n > 5") >> Number("two")
    own.when("else") >> Number("three")
    shared: dict[str, Any] = {}
    Flow(own).run(shared)
    assert shared["seen"] == ["own", "three"]


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ("n > 'a'", "node 'one': when: n > 'a': a number > text: only numbers and texts have an order"),
        ("m > 1", "node 'one': when: m > 1: m has no value"),
        ("n >", "node 'one': when: n >: a name or a value is missing"),
        ("n > 5", "node 'one': none of its conditions holds: when n > 5"),
    ],
)
def test_a_condition_without_a_value_ends_the_flow(when: str, message: str) -> None:
    one = Number("one")
    one.when(when) >> Number("two")
    with pytest.raises(FlowError) as caught:
        Flow(one).run({})
    assert message in str(caught.value)


def flow_in_python() -> Flow:
    begin = Transform({"first": 0}, id="begin")
    adding = ToolNode("add", params={"a": "${n}"})
    loop = inline(
        Flow(adding, outputs={"n": "${add}"}),
        id="loop",
        loop=FlowLoop(carry={"n": "${first}"}, repeat_while="n < limit", limit=50),
    )
    done = Transform({"said": "${if(loop.n > 2, 'many', 'few')}"}, id="done")
    begin >> loop
    loop.when("loop.n > 100") >> begin
    loop.when("else") >> done
    return Flow(begin, inputs={"limit": {"type": "integer"}})


async def test_a_flow_in_python_is_data_and_runs(opened: OpenFlows) -> None:
    definition = definition_of(flow_in_python())
    assert from_document(to_document(definition)) == definition
    assert [edge.way for edge in definition.edges] == ["default", "when loop.n > 100", "else"]
    async with opened(tools=TOOLS) as app:
        outcome = await app.run_flow(flow_in_python(), limit=5)
        assert isinstance(outcome, Finished)
        assert outcome.result.value == {"said": "many"}
        _, _, events = await app.flows.trace(outcome.run_id)
    names = [event.node for event in events]
    assert names == ["begin", "loop/add", *(f"loop@{number}/add" for number in range(2, 6)), "loop", "done"]
    assert [event.action for event in events if event.node == "loop"] == ["else"]
    assert {event.node: event.output for event in events}["loop"] == {"n": 5}


def test_conditions_values_and_loops_are_drawn() -> None:
    definition = definition_of(flow_in_python())
    drawn = mermaid(definition)
    assert 'n1 -->|"when loop.n #62; 100"| n0' in drawn
    assert 'n1 -->|"else"| n2' in drawn
    assert "first #61; 0" in drawn
    picture = svg(definition)
    assert "when loop.n &gt; 100" in picture
    assert ">else</text>" in picture


async def test_a_dry_run_shows_conditions_values_and_loops(opened: OpenFlows) -> None:
    async with opened(tools=TOOLS) as app:
        planned = await plan(definition_of(flow_in_python()), {"limit": 5}, app.show)
    assert [node.to_dict() for node in planned] == [
        {"node": "begin", "transform": True, "arguments": {"first": 0}, "next": {"default": "loop"}},
        {
            "node": "loop",
            "flow": True,
            "while": "n < limit",
            "arguments": {"n": "${first}"},
            "next": {"when loop.n > 100": "begin", "else": "done"},
        },
        {"node": "loop/add", "tool": "add", "arguments": {"a": "${n}"}},
        {"node": "done", "transform": True, "arguments": {"said": "${if(loop.n > 2, 'many', 'few')}"}},
    ]
