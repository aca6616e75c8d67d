"""A flow inside a flow, and a question, as nodes: every key that they accept has its effect."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from servers.flow_tools import TOOLS, OpenFlows
from spindle import Finished, Paused, SpindleError, tool
from spindle.errors import FlowError
from spindle.flows import Ask, Batch, Flow, Retry, ToolNode, inline
from spindle.flows.plan import plan
from spindle.flows.problems import BrokenFlowError
from spindle.flows.text.document import from_document

Document = dict[str, Any]


class Counted:
    """Tools that count, fail and wait."""

    def __init__(self, fails: int = 0) -> None:
        self.seen: list[Any] = []
        self.fails = fails

        @tool
        def work(text: str) -> str:
            self.seen.append(text)
            if self.fails:
                self.fails -= 1
                raise ValueError("not now")
            return f"<{text}>"

        @tool
        async def forever(text: str = "") -> str:
            self.seen.append(text)
            await asyncio.Event().wait()
            return text

        self.tools = [*TOOLS, work, forever]


def use(tool: str, id: str | None = None, **more: Any) -> Document:
    return {"id": id or tool, "tool": tool, **more}


def inner(*nodes: Document, **more: Any) -> Document:
    edges = [{"from": one["id"], "to": other["id"]} for one, other in itertools.pairwise(nodes)]
    return {"nodes": [*nodes], "edges": edges, **more}


async def run(opened: OpenFlows, counted: Counted, *nodes: Document, **more: Any) -> Any:
    given = more.pop("given", {})
    definition = from_document(inner(*nodes, **more))
    async with opened(tools=counted.tools) as app:
        outcome = await app.run_flow(definition, given)
    assert isinstance(outcome, Finished)
    return outcome.result.value


# --- a flow inside a flow


async def test_params_set_its_inputs_and_defaults_are_filled_in(opened: OpenFlows) -> None:
    flow = inner(
        use("join", params={"a": "${who}", "b": "${greeting}"}),
        inputs={"who": {"type": "string"}, "greeting": {"type": "string", "default": "hi"}},
    )
    node = {"id": "sub", "flow": flow, "params": {"who": "${name}"}}
    assert await run(opened, Counted(), node, given={"name": "ann"}) == "ann hi"


async def test_an_input_that_nothing_provides_is_found_before_it_runs(opened: OpenFlows) -> None:
    flow = inner(use("upper", params={"text": "${who}"}), inputs={"who": {"type": "string"}})
    with pytest.raises(BrokenFlowError, match="sub: `who` is missing: nothing provides it"):
        await run(opened, Counted(), {"id": "sub", "flow": flow})


async def test_its_inputs_are_mapped(opened: OpenFlows) -> None:
    flow = inner(use("upper", params={"text": "${who}"}), inputs={"who": {"type": "string"}})
    mappings = {"sub": {"inputs": {"who": "p.name"}}}
    assert (
        await run(opened, Counted(), use("person", "p"), {"id": "sub", "flow": flow}, mappings=mappings)
        == "ADA"
    )


async def test_it_is_tried_again_as_a_whole(opened: OpenFlows) -> None:
    counted = Counted(fails=2)
    flow = inner(use("upper", params={"text": "a"}), use("work", params={"text": "${upper}"}))
    node = {"id": "sub", "flow": flow, "retry": {"attempts": 4}}
    assert await run(opened, counted, node) == "<A>"
    assert counted.seen == ["A", "A", "A"]


async def test_it_is_given_up_after_its_timeout(opened: OpenFlows) -> None:
    counted = Counted()
    flow = inner(use("upper", params={"text": "a"}), use("forever"))
    late = use("same", "late", params={"value": "${sub.error.category}"})
    definition = from_document(
        {
            "nodes": [{"id": "sub", "flow": flow, "timeout": 0.05}, late],
            "edges": [{"from": "sub", "action": "timeout", "to": "late"}],
        }
    )
    async with opened(tools=counted.tools) as app:
        outcome = await app.run_flow(definition)
    assert isinstance(outcome, Finished)
    assert outcome.result.value == {"value": "timeout"}
    assert counted.seen == [""]


async def test_a_flow_that_timed_out_is_not_begun_again_after_a_pause(opened: OpenFlows) -> None:
    counted = Counted()
    definition = from_document(
        {
            "nodes": [
                {"id": "sub", "flow": inner(use("forever")), "timeout": 0.05},
                {"id": "go", "ask": "Go on?"},
            ],
            "edges": [{"from": "sub", "action": "timeout", "to": "go"}],
        }
    )
    async with opened(tools=counted.tools) as app:
        paused = await app.run_flow(definition)
        assert isinstance(paused, Paused)
        outcome = await app.resume(paused.pauses[0].token, answer="yes")
    assert isinstance(outcome, Finished)
    assert outcome.result.value == "yes"
    assert len(counted.seen) == 1


async def test_fail_when_looks_at_its_output(opened: OpenFlows) -> None:
    flow = inner(use("add", params={"a": 1}), outputs={"n": "${add}"})
    node = {"id": "sub", "flow": flow, "fail_when": "n > 1"}
    with pytest.raises(SpindleError, match="node 'sub' reported a failure: n > 1"):
        await run(opened, Counted(), node)


async def test_its_outputs_are_what_it_gives_and_can_be_renamed(opened: OpenFlows) -> None:
    flow = inner(use("count", params={"text": "a b c"}), outputs={"n": "${count.words}"})
    show = use("same", params={"value": ["${sub}", "${many}"]})
    assert await run(
        opened, Counted(), {"id": "sub", "flow": flow}, show, mappings={"sub": {"outputs": {"n": "many"}}}
    ) == {"value": [{"n": 3}, 3]}


async def test_an_error_inside_is_caught_by_its_outer_edges(opened: OpenFlows) -> None:
    counted = Counted(fails=1)
    definition = from_document(
        {
            "nodes": [
                {"id": "sub", "flow": inner(use("work", params={"text": "a"}))},
                use("same", params={"value": "${sub.error.message}"}),
            ],
            "edges": [{"from": "sub", "action": "error", "to": "same"}],
        }
    )
    async with opened(tools=counted.tools) as app:
        outcome = await app.run_flow(definition)
    assert isinstance(outcome, Finished)
    assert "not now" in outcome.result.value["value"]


async def test_it_is_done_for_each_item(opened: OpenFlows) -> None:
    flow = inner(
        use("upper", params={"text": "${word}"}), use("join", params={"a": "${upper}", "b": "${word}"})
    )
    node = {"id": "each", "flow": flow, "batch": {"over": "${words}", "item": "word", "concurrency": 3}}
    words = [f"w{n}" for n in range(20)]
    assert await run(opened, Counted(), node, given={"words": words}) == [f"{w.upper()} {w}" for w in words]


async def test_items_that_fail_are_kept_apart(opened: OpenFlows) -> None:
    flow = inner(use("work", params={"text": "${item}"}), use("upper", params={"text": "${work}"}))
    batch = {"over": ["a", "b", "c"], "keep_errors": True, "concurrency": 1}
    show = use("same", params={"value": ["${each}", "${each.failed[0].index}"]})
    counted = Counted(fails=1)
    assert await run(opened, counted, {"id": "each", "flow": flow, "batch": batch}, show) == {
        "value": [[None, "<B>", "<C>"], 0]
    }


async def test_what_one_item_leaves_no_other_sees(opened: OpenFlows) -> None:
    flow = inner(use("same", "first", params={"value": "${item}"}))
    after = use("same", "after", params={"value": "${first}"})
    with pytest.raises(BrokenFlowError, match="first"):
        await run(opened, Counted(), {"id": "each", "flow": flow, "batch": {"over": [1]}}, after)


async def test_a_batch_of_flows_pauses_and_keeps_what_was_done(opened: OpenFlows) -> None:
    counted = Counted()
    flow = Flow(first := ToolNode("work", params={"text": "${item}"}))
    first >> Ask("Send ${work}?")
    each = inline(flow, id="each", batch=Batch("${words}", concurrency=2))
    async with opened(tools=counted.tools) as app:
        outcome = await app.run_flow(Flow(each), words=["a", "b", "c"])
        while isinstance(outcome, Paused):
            for pause in outcome.pauses:
                outcome = await app.resume(pause.token, answer=f"yes to {pause.message}")
    assert outcome.result.value == [f"yes to Send <{word}>?" for word in "abc"]
    assert sorted(counted.seen) == ["a", "b", "c"]


async def test_its_nodes_are_in_the_trace_below_it(opened: OpenFlows) -> None:
    counted = Counted(fails=1)
    node = inline(Flow(ToolNode("work", params={"text": "${item}"})), id="each",
                  batch=Batch(["a", "b"], concurrency=1), retry=Retry(2))  # fmt: skip
    async with opened(tools=counted.tools) as app:
        outcome = await app.run_flow(Flow(node))
        _, _, events = await app.flows.trace(outcome.run_id)
    assert [event.node for event in events] == ["each[0]/work", "each[0]~2/work", "each[1]/work", "each"]


async def test_a_run_goes_on_from_a_node_after_an_inline_flow(opened: OpenFlows) -> None:
    counted = Counted()
    definition = from_document(
        inner(
            {"id": "sub", "flow": inner(use("work", params={"text": "a"}), outputs={"w": "${work}"})},
            use("same", params={"value": ["${w}", "${sub}", "${work}"]}),
        )
    )
    async with opened(tools=counted.tools) as app:
        first = await app.run_flow(definition)
        again = await app.flows.run(definition, start="same", reuse=first.run_id)
    assert isinstance(again, Finished)
    assert again.result.value == {"value": ["<a>", {"w": "<a>"}, "<a>"]}
    assert counted.seen == ["a"]


def test_a_flow_with_parts_in_python_is_no_inline_node() -> None:
    class Own(Flow):
        pass

    with pytest.raises(FlowError, match="written in Python"):
        inline(Own(ToolNode("work")), id="sub")


async def test_a_plan_shows_what_an_inline_flow_is_given(opened: OpenFlows) -> None:
    flow = inner(use("upper", params={"text": "${who} ${item}"}), inputs={"who": {"type": "string"}})
    node = {"id": "each", "flow": flow, "params": {"who": "${name}"}, "batch": {"over": [1, 2]}}
    definition = from_document(inner(node))
    async with opened() as app:
        planned = await plan(definition, {"name": "ann"}, app.show)
    assert [item.to_dict() for item in planned] == [
        {"node": "each", "flow": True, "arguments": {"who": "ann"}, "over": [1, 2]},
        {"node": "each/upper", "tool": "upper", "arguments": {"text": "${who} ${item}"}},
    ]


# --- a question


@pytest.mark.parametrize(("answer", "sent"), [("yes", ["x"]), ("no", [])])
async def test_fail_when_looks_at_an_answer(opened: OpenFlows, answer: str, sent: list[str]) -> None:
    counted = Counted()
    ask = Ask("Really?", id="sure", fail_when='value != "yes"')
    ask >> ToolNode("work", params={"text": "x"})
    ask - "error" >> ToolNode("same", params={"value": "${sure.error.message}"})
    async with opened(tools=counted.tools) as app:
        paused = await app.run_flow(Flow(ask))
        assert isinstance(paused, Paused)
        outcome = await app.resume(paused.pauses[0].token, answer=answer)
    assert isinstance(outcome, Finished)
    assert counted.seen == sent


async def test_a_question_is_asked_for_each_item(opened: OpenFlows) -> None:
    ask = Ask("Keep ${item}?", id="keep", batch=Batch("${things}"))
    async with opened() as app:
        outcome = await app.run_flow(Flow(ask), things=["a", "b"])
        while isinstance(outcome, Paused):
            for pause in outcome.pauses:
                outcome = await app.resume(pause.token, answer=pause.message.upper())
    assert outcome.result.value == ["KEEP A?", "KEEP B?"]


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"ask": "?", "retry": {"attempts": 2}}, "`nodes[0]`: a question has no key 'retry'"),
        ({"ask": "?", "timeout": 1}, "`nodes[0]`: a question has no key 'timeout'"),
        ({"ask": "?", "cache": True}, "`nodes[0]`: a question has no key 'cache'"),
        ({"ask": "?", "params": {"a": 1}}, "`nodes[0]`: a question has no key 'params'"),
        ({"ask": "?", "fingerprint": "x"}, "`nodes[0]`: a question has no key 'fingerprint'"),
        (
            {"flow": {"nodes": [{"id": "b", "tool": "x"}]}, "fingerprint": "x"},
            "`nodes[0]`: a flow inside a flow has no key 'fingerprint'",
        ),
    ],
)
def test_a_key_without_an_effect_is_refused(node: Document, message: str) -> None:
    with pytest.raises(BrokenFlowError) as caught:
        from_document({"nodes": [{"id": "a", **node}]})
    assert str(caught.value.problems[0]) == message


def test_a_mapping_of_inputs_of_a_question_is_refused() -> None:
    with pytest.raises(BrokenFlowError, match="'a' is a question, which has no inputs to be mapped"):
        from_document({"nodes": [{"id": "a", "ask": "?"}], "mappings": {"a": {"inputs": {"x": "y"}}}})
