"""Branches that run at the same time, and the node where they meet."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tools import find

from servers.flow_tools import TOOLS, OpenFlows
from spindle import Context, Finished, Paused, SpindleError, tool
from spindle.errors import FlowError
from spindle.flows import Ask, Batch, Flow, Join, Node, ToolNode, inline
from spindle.flows.build import build, definition_of
from spindle.flows.check.check import check
from spindle.flows.draw.pictures import mermaid, svg
from spindle.flows.plan import plan
from spindle.flows.problems import BrokenFlowError
from spindle.flows.text.document import from_document
from spindle.flows.text.files import read
from spindle.flows.text.writing import to_document

Document = dict[str, Any]
PATIENCE = 30.0


class Seen:
    """Tools that wait for each other, and count."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.cancelled: list[str] = []
        self.begun: dict[str, asyncio.Event] = {}
        self.fails: set[str] = set()

        @tool
        async def meet(name: str, other: str) -> str:
            """Ends only if the other one runs at the same time."""
            self.event(name).set()
            await asyncio.wait_for(self.event(other).wait(), PATIENCE)
            return name

        @tool
        async def effect(name: str) -> str:
            self.calls[name] += 1
            if name in self.fails:
                raise ValueError(f"{name} cannot")
            return f"{name} {self.calls[name]}"

        @tool
        async def forever(name: str) -> str:
            self.calls[name] += 1
            self.event(name).set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled.append(name)
                raise
            return name

        @tool
        async def after(name: str, other: str) -> str:
            """Ends when the other has begun."""
            self.calls[name] += 1
            await asyncio.wait_for(self.event(other).wait(), PATIENCE)
            return name

        self.tools = [*TOOLS, meet, effect, forever, after]

    def event(self, name: str) -> asyncio.Event:
        return self.begun.setdefault(name, asyncio.Event())


def use(tool: str, id: str | None = None, **more: Any) -> Document:
    return {"id": id or tool, "tool": tool, **more}


def document(nodes: list[Document], *edges: str, **more: Any) -> Document:
    """Edges as `a>b` or `a-action>b`."""
    written: list[Document] = []
    for edge in edges:
        source, _, target = edge.partition(">")
        source, _, action = source.partition("-")
        written.append({"from": source, "to": target, **({"action": action} if action else {})})
    return {"nodes": nodes, "edges": written, **more}


async def run(opened: OpenFlows, seen: Seen, flow: Document, **given: Any) -> Any:
    async with opened(tools=seen.tools) as app:
        outcome = await app.run_flow(from_document(flow), given)
    assert isinstance(outcome, Finished)
    return outcome.result.value


async def problems(flow: Document, tools: list[Any], opened: OpenFlows) -> list[str]:
    async with opened(tools=tools) as app:
        return [f"{one.severity}: {one.message}" for one in await check(from_document(flow), app.show)]


START = use("same", "start", params={"value": 1})
SHOW = use("same", "end", params={"value": "${end.branches}"}, join="all")


def effects(*names: str) -> list[Document]:
    return [use("effect", name, params={"name": name}) for name in names]


# --- what they do


async def test_branches_run_at_the_same_time_and_their_results_meet(opened: OpenFlows) -> None:
    flow = document(
        [
            START,
            use("meet", "a", params={"name": "a", "other": "b"}),
            use("meet", "b", params={"name": "b", "other": "a"}),
            use("same", "end", params={"value": ["${a}", "${b}", "${end.branches}"]}, join="all"),
        ],
        "start>a", "start>b", "a>end", "b>end",
    )  # fmt: skip
    assert await run(opened, Seen(), flow) == {"value": ["a", "b", {"a": "a", "b": "b"}]}


async def test_a_branch_has_several_nodes_and_no_other_sees_what_it_writes_before_they_meet(
    opened: OpenFlows,
) -> None:
    flow = document(
        [
            START,
            use("same", "a", params={"value": "a"}),
            use("same", "a2", params={"value": "${value}"}),
            use("same", "b", params={"value": "b"}),
            use("same", "b2", params={"value": "${value}"}),
            use("same", "end", params={"value": ["${a2.value}", "${b2.value}"]}, join="all"),
        ],
        "start>a", "start>b", "a>a2", "b>b2", "a2>end", "b2>end",
    )  # fmt: skip
    assert await run(opened, Seen(), flow) == {"value": ["a", "b"]}


async def test_the_first_branch_wins_and_the_others_are_cancelled(opened: OpenFlows) -> None:
    seen = Seen()
    flow = document(
        [
            START,
            use("after", "fast", params={"name": "fast", "other": "slow"}),
            use("forever", "slow", params={"name": "slow"}),
            *effects("never"),
            SHOW | {"join": "any"},
        ],
        "start>fast", "start>slow", "fast>end", "slow>never", "never>end",
    )  # fmt: skip
    async with opened(tools=seen.tools) as app:
        outcome = await app.run_flow(from_document(flow))
        assert isinstance(outcome, Finished)
        _, _, events = await app.flows.trace(outcome.run_id)
    assert outcome.result.value == {"value": {"fast": "fast"}}
    assert seen.cancelled == ["slow"]
    assert seen.calls["never"] == 0
    told = {event.node: event for event in events}
    assert told["slow"].error == {"category": "cancelled", "message": "given up: end.branches has enough"}
    assert told["end.branches"].output == {"arrived": ["fast"], "given_up": ["slow"]}
    assert (told["fast"].branch, told["start"].branch) == ("fast", None)


async def test_so_many_branches_are_enough(opened: OpenFlows) -> None:
    seen = Seen()
    flow = document(
        [
            START,
            *effects("a", "b"),
            use("forever", "c", params={"name": "c"}),
            use("after", "b2", params={"name": "b2", "other": "c"}),
            SHOW | {"join": 2},
        ],
        "start>a", "start>b", "start>c", "a>end", "b>b2", "b2>end", "c>end",
    )  # fmt: skip
    assert await run(opened, seen, flow) == {"value": {"a": "a 1", "b": "b2"}}
    assert seen.cancelled == ["c"]


async def test_a_failure_ends_the_others_and_is_the_failure_of_the_flow(opened: OpenFlows) -> None:
    seen = Seen()
    seen.fails = {"bad"}
    flow = document(
        [
            START,
            use("after", "wait", params={"name": "wait", "other": "slow"}),
            *effects("bad"),
            use("forever", "slow", params={"name": "slow"}),
            SHOW,
        ],
        "start>wait", "start>slow", "wait>bad", "bad>end", "slow>end",
    )  # fmt: skip
    with pytest.raises(SpindleError, match="bad cannot"):
        await run(opened, seen, flow)
    assert seen.cancelled == ["slow"]


async def test_failures_are_collected(opened: OpenFlows) -> None:
    seen = Seen()
    seen.fails = {"bad"}
    flow = document(
        [
            START,
            *effects("good", "bad"),
            use(
                "same",
                "end",
                params={"value": ["${end.branches}", "${end.errors.bad.message}"]},
                join={"wait": "all", "keep_errors": True},
            ),
        ],
        "start>good", "start>bad", "good>end", "bad>end",
    )  # fmt: skip
    value = (await run(opened, seen, flow))["value"]
    assert value[0] == {"good": "good 1", "bad": None}
    assert "bad cannot" in value[1]


async def test_too_few_branches_fail_the_flow_with_all_reasons(opened: OpenFlows) -> None:
    seen = Seen()
    seen.fails = {"a", "b"}
    flow = document(
        [START, *effects("a", "b"), SHOW | {"join": "any"}], "start>a", "start>b", "a>end", "b>end"
    )
    with pytest.raises(FlowError, match=r"waits for 1 of 2 branches, and too few reached it: a: .*; b: "):
        await run(opened, seen, flow)


async def test_a_failure_can_be_kept_from_counting_by_an_edge_inside_the_branch(opened: OpenFlows) -> None:
    seen = Seen()
    seen.fails = {"bad"}
    flow = document(
        [
            START,
            *effects("good", "bad"),
            use("same", "instead", params={"value": "${bad.error.message}"}),
            SHOW,
        ],
        "start>good", "start>bad", "good>end", "bad-error>instead", "bad>end", "instead>end",
    )  # fmt: skip
    value = (await run(opened, seen, flow))["value"]
    assert value["good"] == "good 1"
    assert "bad cannot" in value["bad"]["value"]


async def test_branches_in_branches(opened: OpenFlows) -> None:
    flow = document(
        [
            START,
            *effects("a", "a1", "a2"),
            use("same", "inner", params={"value": "${inner.branches}"}, join="all"),
            *effects("b"),
            SHOW,
        ],
        "start>a", "start>b", "a>a1", "a>a2", "a1>inner", "a2>inner", "inner>end", "b>end",
    )  # fmt: skip
    assert await run(opened, Seen(), flow) == {
        "value": {"a": {"value": {"a1": "a1 1", "a2": "a2 1"}}, "b": "b 1"}
    }


async def test_branches_in_a_loop(opened: OpenFlows) -> None:
    class Again(Node):
        join = Join("all")

        def prep(self, shared: Any) -> Any:
            return shared["again.branches"]

        def exec(self, prep_res: Any) -> Any:
            return prep_res

        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> Any:
            shared["seen"] = [*shared.get("seen", []), exec_res]
            return "again" if len(shared["seen"]) < 3 else None

    seen = Seen()
    start, again = ToolNode("same", id="start", params={"value": 1}), Again(id="again")
    a, b = (ToolNode("effect", id=name, params={"name": name}) for name in "ab")
    start >> (a, b) >> again
    again - "again" >> start
    async with opened(tools=seen.tools) as app:
        flow = Flow(start, name="loop", outputs={"seen": "${seen}"})
        outcome = await app.run_flow(flow)
    assert isinstance(outcome, Finished)
    assert outcome.result.value == {"seen": [{"a": f"a {n}", "b": f"b {n}"} for n in (1, 2, 3)]}


async def test_branches_without_a_join_end_by_themselves(opened: OpenFlows) -> None:
    seen = Seen()
    assert await run(opened, seen, document([START, *effects("a", "b")], "start>a", "start>b")) == {
        "a": "a 1",
        "b": "b 1",
    }


async def test_a_join_that_one_way_leads_around_the_branches_to(opened: OpenFlows) -> None:
    flow = document(
        [use("fail", "start"), *effects("a", "b"), use("same", "end", params={"value": "here"}, join="all")],
        "start>a", "start>b", "a>end", "b>end", "start-error>end",
    )  # fmt: skip
    assert await run(opened, Seen(), flow) == {"value": "here"}


async def test_results_are_put_together_in_the_order_of_the_edges(opened: OpenFlows) -> None:
    """Not in the order in which the branches ended."""
    flow = document(
        [
            START,
            use("after", "a", params={"name": "a", "other": "b"}),
            use("meet", "b", params={"name": "b", "other": "b"}),
            use("same", "end", params={"value": "${end.branches}"}, join="all"),
        ],
        "start>b", "start>a", "a>end", "b>end",
    )  # fmt: skip
    value = await run(opened, Seen(), flow)
    assert list(value["value"]) == ["b", "a"]


BUSY = """
import asyncio
from spindle import tool

active = most = 0

@tool
async def busy(n: int) -> list[int]:
    global active, most
    active += 1
    most = max(most, active)
    for _ in range(5):
        await asyncio.sleep(0)
    active -= 1
    return [n, most]
"""


async def test_the_limits_of_a_source_hold(opened: OpenFlows, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "busy.py").write_text(BUSY)
    (tmp_path / "spindle.toml").write_text(
        '[sources.work]\nkind = "python"\npath = "work"\nmax_concurrency = 3\n'
    )
    start = ToolNode("same", id="start", params={"value": 1})
    branches = tuple(ToolNode("work.busy", id=f"b{n}", params={"n": n}) for n in range(20))
    end = ToolNode("same", id="end", params={"value": "${end.branches}"}, join=Join())
    start >> branches >> end
    async with opened() as app:
        await app.sync()
        outcome = await app.run_flow(Flow(start))
    assert isinstance(outcome, Finished)
    results = outcome.result.value["value"]
    assert [results[f"b{n}"][0] for n in range(20)] == list(range(20))
    assert max(result[1] for result in results.values()) == 3


# --- pauses


async def test_a_pause_in_one_branch_lets_the_others_end_and_none_is_repeated(opened: OpenFlows) -> None:
    seen = Seen()
    flow = document(
        [START, {"id": "ask", "ask": "Go?"}, *effects("after_ask", "b", "b2", "b3"), SHOW],
        "start>ask", "start>b", "ask>after_ask", "after_ask>end", "b>b2", "b2>b3", "b3>end",
    )  # fmt: skip
    async with opened(tools=seen.tools) as app:
        paused = await app.run_flow(from_document(flow))
        assert isinstance(paused, Paused)
        assert [pause.message for pause in paused.pauses] == ["Go?"]
        assert seen.calls == {"b": 1, "b2": 1, "b3": 1}
    async with opened(tools=seen.tools) as app:
        outcome = await app.resume(paused.pauses[0].token, answer="yes")
    assert isinstance(outcome, Finished)
    assert outcome.result.value == {"value": {"ask": "after_ask 1", "b": "b3 1"}}
    assert seen.calls == {"b": 1, "b2": 1, "b3": 1, "after_ask": 1}


async def test_all_branches_ask_at_once(opened: OpenFlows) -> None:
    flow = document(
        [START, {"id": "a", "ask": "A?"}, {"id": "b", "ask": "B?"}, SHOW],
        "start>a",
        "start>b",
        "a>end",
        "b>end",
    )
    async with opened() as app:
        outcome = await app.run_flow(from_document(flow))
        assert isinstance(outcome, Paused)
        assert {pause.message for pause in outcome.pauses} == {"A?", "B?"}
        for pause in outcome.pauses:
            outcome = await app.resume(pause.token, answer=pause.message.lower())
    assert isinstance(outcome, Finished)
    assert outcome.result.value == {"value": {"a": "a?", "b": "b?"}}


async def test_a_question_that_nobody_needs_answered_any_more_is_withdrawn(opened: OpenFlows) -> None:
    seen = Seen()
    flow = document(
        [
            START,
            {"id": "a", "ask": "A?"},
            {"id": "b", "ask": "B?"},
            SHOW | {"join": "any"},
            {"id": "last", "ask": "Last?"},
        ],
        "start>a", "start>b", "a>end", "b>end", "end>last",
    )  # fmt: skip
    async with opened(tools=seen.tools) as app:
        outcome = await app.run_flow(from_document(flow))
        assert isinstance(outcome, Paused)
        tokens = {pause.message: pause.token for pause in outcome.pauses}
        outcome = await app.resume(tokens["B?"], answer="b")
        assert isinstance(outcome, Paused)
        assert [pause.message for pause in outcome.pauses] == ["Last?"]
        assert [pause.message for pause in await app.pauses(run=outcome.run_id)] == ["Last?"]
        with pytest.raises(SpindleError):
            await app.resume(tokens["A?"], answer="late")
        outcome = await app.resume(outcome.pauses[0].token, answer="done")
    assert isinstance(outcome, Finished)
    assert outcome.result.value == "done"


async def test_a_branch_that_arrives_wins_over_one_that_asks(opened: OpenFlows) -> None:
    flow = document(
        [START, {"id": "ask", "ask": "Go?"}, *effects("b"), SHOW | {"join": "any"}],
        "start>ask", "start>b", "ask>end", "b>end",
    )  # fmt: skip
    assert await run(opened, Seen(), flow) == {"value": {"b": "b 1"}}


async def test_a_branch_that_was_given_up_is_not_begun_again_after_a_pause(opened: OpenFlows) -> None:
    """Its call may have had an effect: it is neither repeated nor asked about."""
    seen = Seen()
    flow = document(
        [
            START,
            use("after", "fast", params={"name": "fast", "other": "slow"}),
            use("forever", "slow", params={"name": "slow"}),
            SHOW | {"join": "any"},
            {"id": "ask", "ask": "Go?"},
        ],
        "start>fast", "start>slow", "fast>end", "slow>end", "end>ask",
    )  # fmt: skip
    async with opened(tools=seen.tools) as app:
        paused = await app.run_flow(from_document(flow))
        assert isinstance(paused, Paused)
    async with opened(tools=seen.tools) as app:
        outcome = await app.resume(paused.pauses[0].token, answer="yes")
        _, _, events = await app.flows.trace(paused.run_id)
    assert isinstance(outcome, Finished)
    assert seen.calls == {"fast": 1, "slow": 1}
    assert [event.node for event in events].count("slow") == 1


async def test_branches_that_ended_with_a_failure_outside_are_not_begun_again(opened: OpenFlows) -> None:
    seen = Seen()
    seen.fails = {"bad"}
    inside = document(
        [
            START,
            use("after", "wait", params={"name": "wait", "other": "slow"}),
            *effects("bad"),
            use("forever", "slow", params={"name": "slow"}),
            SHOW,
        ],
        "start>wait", "start>slow", "wait>bad", "bad>end", "slow>end",
    )  # fmt: skip
    flow = document(
        [{"id": "sub", "flow": inside}, {"id": "ask", "ask": "${sub.error.message}"}], "sub-error>ask"
    )
    async with opened(tools=seen.tools) as app:
        paused = await app.run_flow(from_document(flow))
        assert isinstance(paused, Paused)
        assert "bad cannot" in paused.pauses[0].message
        outcome = await app.resume(paused.pauses[0].token, answer="ok")
    assert isinstance(outcome, Finished)
    assert seen.calls == {"wait": 1, "bad": 1, "slow": 1}


async def test_equal_calls_of_branches_keep_their_results_after_a_pause(opened: OpenFlows) -> None:
    """The same tool with the same arguments, in two branches, ending in the other order."""
    order: list[str] = []
    gate = asyncio.Event()

    @tool
    async def next_number() -> int:
        order.append("x")
        mine = len(order)
        if mine == 1:
            await asyncio.wait_for(gate.wait(), PATIENCE)
        else:
            gate.set()
        return mine

    flow = document(
        [START, use("next_number", "a"), use("next_number", "b"), SHOW, {"id": "ask", "ask": "${end.value}"}],
        "start>a", "start>b", "a>end", "b>end", "end>ask",
    )  # fmt: skip
    async with opened(tools=[*TOOLS, next_number]) as app:
        paused = await app.run_flow(from_document(flow))
        assert isinstance(paused, Paused)
        assert paused.pauses[0].message == str({"a": 1, "b": 2})
        outcome = await app.resume(paused.pauses[0].token, answer="ok")
    assert isinstance(outcome, Finished)
    assert len(order) == 2


async def test_items_of_a_batch_of_flows_with_branches_keep_their_steps(opened: OpenFlows) -> None:
    seen = Seen()
    inside = document(
        [
            START,
            use("effect", "a", params={"name": "a${item}"}),
            {"id": "b", "ask": "B${item}?"},
            use("join", "end", params={"a": "${a}", "b": "${b}"}, join="all"),
        ],
        "start>a", "start>b", "a>end", "b>end",
    )  # fmt: skip
    flow = document([{"id": "each", "flow": inside, "batch": {"over": [1, 2, 3], "concurrency": 3}}])
    async with opened(tools=seen.tools) as app:
        outcome: Any = await app.run_flow(from_document(flow))
        asked = 0
        while isinstance(outcome, Paused):
            asked += 1
            outcome = await app.resume(outcome.pauses[-1].token, answer=outcome.pauses[-1].message)
    assert asked == 3
    assert outcome.result.value == [f"a{n} 1 B{n}?" for n in (1, 2, 3)]
    assert seen.calls == {"a1": 1, "a2": 1, "a3": 1}


# --- in Python, in files, in pictures


def test_a_flow_without_a_workspace() -> None:
    class Step(Node):
        def exec(self, prep_res: Any) -> Any:
            return self.id

        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
            shared[f"at {exec_res}"] = True

    a, b, c, d = (Step(id=name) for name in "abcd")
    d.join = Join()
    a >> (b, c) >> d
    shared: dict[str, Any] = {}
    Flow(a).run(shared)
    assert shared == {"at a": True, "at b": True, "at c": True, "at d": True}


async def test_nodes_without_an_id_are_branches_too() -> None:
    class Step(Node):
        async def exec(self, prep_res: Any) -> Any:
            return 1

        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
            shared["count"] = shared.get("count", 0) + 1

    start, end = Step(), Step()
    end.join = Join()
    start >> (Step(), Step(), Step()) >> end
    shared: dict[str, Any] = {}
    await Flow(start).run_async(shared)
    assert shared["count"] == 3  # at the start, in each branch as if it were the only one, and at the end


def test_branches_of_an_action() -> None:
    class Choose(Node):
        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> str:
            return "both"

    class Step(Node):
        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
            shared[str(self.id)] = True

    start, a, b = Choose(), Step(id="a"), Step(id="b")
    start - "both" >> (a, b)
    shared: dict[str, Any] = {}
    Flow(start).run(shared)
    assert shared == {"a": True, "b": True}


def test_a_flow_of_branches_is_data() -> None:
    start = ToolNode("same", id="start")
    end = Ask("Done?", id="end", join=Join(2, keep_errors=False))
    other = inline(Flow(ToolNode("same")), id="other", join=Join("any"))
    start >> (ToolNode("same", id="a"), ToolNode("same", id="b"), ToolNode("same", id="c")) >> end
    end >> (ToolNode("same", id="x"), ToolNode("same", id="y")) >> other
    definition = definition_of(Flow(start))
    written = to_document(definition)
    assert from_document(written) == definition
    joins = {node["id"]: node["join"] for node in written["nodes"] if "join" in node}
    assert joins == {"end": {"wait": 2, "keep_errors": False}, "other": "any"}
    assert definition_of(build(definition)) == definition


@pytest.mark.parametrize(
    ("join", "message"),
    [
        ("some", '`nodes[0].join` must be "all" or "any", not "some"'),
        ("0", "`nodes[0].join` must be at least 1, not 0"),
        ("2000", "`nodes[0].join` must be at most 1000, not 2000"),
        ("{wat: 1}", "`nodes[0].join` has no key 'wat'"),
        ("{wait: most}", '`nodes[0].join.wait` must be "all" or "any", not "most"'),
        ("{keep_errors: 1}", "`nodes[0].join.keep_errors` must be a boolean, not an integer"),
        ("true", "`nodes[0].join` must be a string or an integer or an object, not a boolean"),
    ],
)
def test_a_join_that_cannot_be_read_is_refused_with_its_line(join: str, message: str) -> None:
    text = f"nodes:\n- id: a\n  tool: same\n  join: {join}\n"
    with pytest.raises(BrokenFlowError) as caught:
        read(text, "yaml", "f.yaml")
    assert f"f.yaml:4: {message}" in [str(problem) for problem in caught.value.problems]


def test_branches_are_drawn() -> None:
    definition = from_document(
        document([START, *effects("a", "b"), SHOW], "start>a", "start>b", "a>end", "b>end", "a-error>end")
    )
    text = mermaid(definition)
    assert "n0 ==> n1" in text
    assert "n0 ==> n2" in text
    assert "n1 -->" in text
    assert "join all, same" in text
    picture = svg(definition)
    assert picture.count('class="line beside"') == 2
    assert "join all, same" in picture


async def test_a_plan_shows_branches_and_what_is_waited_for(opened: OpenFlows) -> None:
    flow = document([START, *effects("a", "b"), SHOW], "start>a", "start>b", "a>end", "b>end")
    seen = Seen()
    async with opened(tools=seen.tools) as app:
        planned = {item.node: item for item in await plan(from_document(flow), {}, app.show)}
    assert list(planned) == ["start", "a", "b", "end"]
    assert planned["start"].to_dict()["next"] == {"default": ["a", "b"]}
    assert planned["end"].to_dict()["join"] == "waits for all branches"
    assert planned["end"].arguments == {"value": "${end.branches}"}
    assert not seen.calls


async def test_a_run_is_repeated_from_the_join(opened: OpenFlows) -> None:
    seen = Seen()
    flow = from_document(
        document(
            [
                START,
                use("after", "fast", params={"name": "fast", "other": "slow"}),
                *effects("slow1"),
                use("forever", "slow", params={"name": "slow"}),
                use(
                    "same",
                    "end",
                    params={"value": ["${end.branches}", "${fast}", "${slow1 ?? 'nothing'}"]},
                    join="any",
                ),
            ],
            "start>fast",
            "start>slow1",
            "slow1>slow",
            "fast>end",
            "slow>end",
        )
    )
    async with opened(tools=seen.tools) as app:
        first = await app.run_flow(flow)
        again = await app.flows.run(flow, start="end", reuse=first.run_id)
        assert isinstance(first, Finished)
        assert isinstance(again, Finished)
        assert first.result.value == {"value": [{"fast": "fast"}, "fast", "nothing"]}
        assert again.result.value == first.result.value
        alone = await app.flows.run(flow, start="slow1", only=True, reuse=first.run_id)
        assert isinstance(alone, Finished)
        assert alone.result.value == "slow1 2"
        with pytest.raises(FlowError, match="'slow1' is in a branch, and the flow cannot start there"):
            await app.flows.run(flow, start="slow1", reuse=first.run_id)


# --- what cannot work


CHECKED: list[tuple[Document, list[str]]] = [
    (
        document([START, *effects("a", "b", "c")], "start>a", "start>b", "a>c", "b>c"),
        ["error: the branches 'a' and 'b' of 'start' both lead to 'c', which does not say `join`"],
    ),
    (
        document(
            [START, *effects("a", "b"), SHOW, use("same", "end2", params={"value": 1}, join="all")],
            "start>a", "start>b", "a>end", "b>end2",
        ),
        ["error: the branches of 'start' meet at 'end' and at 'end2'"],
    ),
    (
        document([START, *effects("a", "b"), SHOW], "start>a", "start>b", "a>end"),
        ["error: the branch 'b' of 'start' ends without reaching 'end'"],
    ),
    (
        document([START, *effects("a", "b"), SHOW | {"join": "any"}], "start>a", "start>b", "a>end"),
        ["warning: the branch 'b' of 'start' ends without reaching 'end'"],
    ),
    (
        document([START, *effects("a", "b"), SHOW | {"join": 3}], "start>a", "start>b", "a>end", "b>end"),
        ["error: 'end' waits for 3 branches, but only 2 of 'start' can reach it"],
    ),
    (
        document([START, SHOW | {"params": {"value": 1}}], "start>end"),
        ["error: 'end' says `join`, but no branches meet there"],
    ),
    (
        document([START, *effects("a"), SHOW | {"params": {"value": 1}}], "start>a", "start>end", "a>end"),
        ["error: a branch of 'start' leads straight to 'end', where it ends",
         ],
    ),
    (
        document(
            [START, *effects("a", "b"), use("fail", "f"), SHOW],
            "start>a", "start>b", "a>end", "b>f", "f-error>end",
        ),
        ["warning: 'f', in a branch of 'start', may end without reaching 'end'"],
    ),
    (
        document(
            [START, use("same", "a", params={"value": 1}), use("same", "b", params={"value": 2}), SHOW],
            "start>a", "start>b", "a>end", "b>end",
        ),
        [],
    ),
    (
        document(
            [START, *effects("a", "b"), SHOW | {"params": {"value": "${effect}"}}],
            "start>a", "start>b", "a>end", "b>end",
        ),
        [
            "error: 'effect' is written by 'a' and by 'b', in two branches, and node 'end' reads it by that "
            "name"
        ],
    ),
    (
        document(
            [START, use("count", "a", params={"text": "x"}), use("count", "b", params={"text": "y"}), SHOW],
            "start>a", "start>b", "a>end", "b>end",
        ),
        [],
    ),
    (
        document(
            [START, *effects("a", "b"), SHOW | {"params": {"value": "${end.branches.c}"}}],
            "start>a", "start>b", "a>end", "b>end",
        ),
        ["error: end: `value`: ${end.branches.c}: end.branches has no key 'c'"],
    ),
    (
        document(
            [START, *effects("a", "b"), SHOW | {"params": {"value": ["${a}", "${b}"]}}],
            "start>a", "start>b", "a>end", "b>end",
        ),
        [],
    ),
    (
        document(
            [START, *effects("a", "b"), SHOW | {"params": {"value": ["${a}"]}, "join": "any"}],
            "start>a", "start>b", "a>end", "b>end",
        ),
        ["warning: end: `value`: ${a}: 'a' may not have run before node 'end'"],
    ),
    (
        document(
            [START, *effects("a"), use("effect", "b", params={"name": "${a}"}), SHOW],
            "start>a", "start>b", "a>end", "b>end",
        ),
        ["error: b: `name`: ${a}: 'a' cannot have run before node 'b'"],
    ),
    (
        document([START, *effects("a", "b"), SHOW], "start>a", "start>a", "start>b", "a>end", "b>end"),
        ["error: two edges lead from 'start' to 'a' for 'default'"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("flow", "expected"), CHECKED)
async def test_check_finds_what_cannot_work(flow: Document, expected: list[str], opened: OpenFlows) -> None:
    assert await problems(flow, Seen().tools, opened) == expected


async def test_check_finds_branches_that_write_the_same_key() -> None:
    params = {"text": "x", "channel": "c"}
    flow = document(
        [
            use("time.now", "start"),
            use("slack.send", "a", params=params),
            use("slack.send", "b", params=params),
            use("time.now", "end", join="all"),
        ],
        *("start>a", "start>b", "a>end", "b>end"),
    )
    told = [f"{one.severity}: {one.message}" for one in await check(from_document(flow), find)]
    assert told == [
        f"warning: {key!r} is written by 'a' and by 'b', in two branches, so that only that of the last edge "
        "is found under that name"
        for key in ("ts", "ok")
    ]


def test_branches_that_meet_without_a_join_are_refused_in_python() -> None:
    a, b, c, d = (Node(id=name) for name in "abcd")
    a >> (b, c) >> d
    with pytest.raises(FlowError, match="both lead to 'd', which does not say `join`"):
        Flow(a).run({})


def test_a_join_that_waits_for_too_many_is_refused_in_python() -> None:
    a, b, c, d = (Node(id=name) for name in "abcd")
    d.join = Join(3)
    a >> (b, c) >> d
    with pytest.raises(FlowError, match="'d' waits for 3 branches, but 'a' begins only 2"):
        Flow(a).run({})


def test_a_branch_that_ends_elsewhere_fails_a_join_of_all() -> None:
    class Leave(Node):
        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> str:
            return "out"

    a, b, c, d = Node(id="a"), Node(id="b"), Leave(id="c"), Node(id="d")
    d.join = Join()
    a >> (b, c) >> d
    c - "out" >> Node(id="e")
    with pytest.raises(FlowError, match="the branch 'c' ended without reaching 'd', which waits for all"):
        Flow(a).run({})


def test_too_many_branches_are_refused() -> None:
    start = Node(id="start")
    start >> tuple(Node(id=f"n{number}") for number in range(1001))
    with pytest.raises(FlowError, match="'start' has 1001 branches, and at most 1000 are allowed"):
        Flow(start).run({})


def test_branches_need_a_store_that_is_a_dict() -> None:
    a = Node(id="a")
    a >> (Node(id="b"), Node(id="c"))
    with pytest.raises(FlowError, match="branches need a shared store that is a dict, not a list"):
        Flow(a).run([])


async def test_a_question_asked_by_a_tool_in_a_branch_pauses_only_that_branch(opened: OpenFlows) -> None:
    seen = Seen()

    @tool
    async def careful(context: Context) -> str:
        return context.ask("Really?")

    flow = document(
        [START, use("careful", "c"), *effects("b", "b2"), SHOW],
        "start>c",
        "start>b",
        "c>end",
        "b>b2",
        "b2>end",
    )
    async with opened(tools=[*seen.tools, careful]) as app:
        outcome = await app.run_flow(from_document(flow))
    assert isinstance(outcome, Paused)
    assert seen.calls == {"b": 1, "b2": 1}


async def test_a_batch_in_a_branch(opened: OpenFlows) -> None:
    start = ToolNode("same", id="start", params={"value": 1})
    a = ToolNode("add", id="a", params={"a": "${item}"}, batch=Batch([1, 2, 3]))
    b = ToolNode("add", id="b", params={"a": 10})
    end = ToolNode("same", id="end", params={"value": "${end.branches}"}, join=Join())
    start >> (a, b) >> end
    async with opened() as app:
        outcome = await app.run_flow(Flow(start))
    assert isinstance(outcome, Finished)
    assert outcome.result.value == {"value": {"a": [2, 3, 4], "b": 11}}
