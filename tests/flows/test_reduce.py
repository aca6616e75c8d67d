"""`reduce`: one value of all results of a batch; and results that are null because their items failed."""

from __future__ import annotations

from typing import Any

import pytest
from typing_extensions import TypedDict

from servers.flow_tools import OpenFlows
from spindle import Finished, tool
from spindle.errors import FlowError
from spindle.flows.check.check import check
from spindle.flows.problems import BrokenFlowError
from spindle.flows.text.document import from_document
from spindle.flows.text.files import read, write


class Found(TypedDict):
    price: int


@tool(read_only=True)
def find(name: str) -> Found:
    """Look up a price."""
    if name == "bad":
        raise ValueError("no such thing")
    return {"price": len(name)}


@tool(read_only=True)
def label(text: str) -> str:
    """Print a label."""
    return f"<{text}>"


def flow(reduce: Any, over: list[str] | None = None, **more: Any) -> dict[str, Any]:
    batch = {"over": over or ["a", "bb", "ccc"], "item": "name", "reduce": reduce, **more}
    return {"nodes": [{"id": "each", "tool": "find", "batch": batch}]}


async def result(opened: OpenFlows, document: dict[str, Any]) -> Any:
    async with opened(tools=[find, label]) as app:
        outcome = await app.run_flow(from_document(document))
    assert isinstance(outcome, Finished)
    return outcome.result.value


async def problems(opened: OpenFlows, document: dict[str, Any]) -> list[str]:
    async with opened(tools=[find, label]) as app:
        found = await check(from_document(document), app.show)
    return [f"{problem.severity}: {problem.message}" for problem in found]


@pytest.mark.parametrize(
    ("reduce", "expected"),
    [
        ("${sum(results, item.price)}", 6),
        ("${sum(results, r => r.price * 2)}", 12),
        ({"total": "${sum(results, item.price)}", "n": "${len(results)}"}, {"total": 6, "n": 3}),
        ("${max(results, item.price).price} of ${len(results)}", "3 of 3"),
        ("${first(results)}", {"price": 1}),
        ("${len(failed)}", 0),
    ],
)
async def test_one_value_of_all_results(reduce: Any, expected: Any, opened: OpenFlows) -> None:
    assert await problems(opened, flow(reduce)) == []
    assert await result(opened, flow(reduce)) == expected


async def test_it_is_what_later_nodes_and_the_trace_see(opened: OpenFlows) -> None:
    document = flow({"total": "${sum(results, item.price)}"})
    document["nodes"].append(
        {"id": "tell", "tool": "label", "params": {"text": "${each.total} and ${total}"}}
    )
    document["edges"] = [{"from": "each", "to": "tell"}]
    assert read(write(from_document(document), "yaml"), "yaml").definition == from_document(document)
    async with opened(tools=[find, label]) as app:
        outcome = await app.run_flow(from_document(document))
        assert isinstance(outcome, Finished)
        _, _, events = await app.flows.trace(outcome.run_id)
    assert outcome.result.text == "<6 and 6>"
    # The items are noted one by one, as the note of the node holds only what was made of them.
    assert [event.node for event in events] == ["each[0]", "each[1]", "each[2]", "each", "tell"]
    assert (events[1].inputs, events[1].output) == ({"name": "bb"}, {"price": 2})
    assert events[3].output == {"total": 6}
    assert events[3].items is not None
    assert events[3].items["total"] == 3


async def test_a_flow_of_several_nodes_is_reduced(opened: OpenFlows) -> None:
    inner = {
        "nodes": [
            {"id": "look", "tool": "find"},
            {"id": "double", "transform": {"twice": "${look.price * 2}"}},
        ],
        "edges": [{"from": "look", "to": "double"}],
        "outputs": {"twice": {"value": "${double.twice}", "type": "integer"}},
    }
    batch = {"over": ["a", "bb"], "item": "name", "reduce": "${join(map(results, text(item.twice)), '+')}"}
    assert await result(opened, {"nodes": [{"id": "each", "flow": inner, "batch": batch}]}) == "2+4"


async def test_items_that_failed_are_null_and_listed(opened: OpenFlows) -> None:
    reduce = {"sum": "${sum(filter(results, item), item.price)}", "bad": "${map(failed, item.index)}"}
    document = flow(reduce, ["a", "bad", "ccc"], keep_errors=True)
    assert await problems(opened, document) == []
    assert await result(opened, document) == {"sum": 4, "bad": [1]}


async def test_a_reduce_that_fails_takes_the_error_edge(opened: OpenFlows) -> None:
    document = flow("${number(to_json(results))}")
    with pytest.raises(FlowError, match=r"node 'each': batch.reduce: .*is not a number"):
        await result(opened, document)
    document["nodes"].append({"id": "sorry", "transform": {"line": "${each.error.message}"}})
    document["edges"] = [{"from": "each", "to": "sorry", "action": "error"}]
    assert "is not a number" in (await result(opened, document))["line"]


@pytest.mark.parametrize(
    ("reduce", "expected"),
    [
        ("sum(results, item.price)", "error: each: batch.reduce does not depend on the results"),
        ("${sum(results, item.prize)}", "has no key 'prize'"),
        ("${sum(resluts, item.price)}", "there is no node, input or key 'resluts'"),
        ("${sum(", "each: batch.reduce: "),
        ("${len(results) + 'x'}", "cannot be calculated"),
    ],
)
async def test_a_wrong_reduce_is_found_before_anything_runs(
    reduce: str, expected: str, opened: OpenFlows
) -> None:
    found = await problems(opened, flow(reduce))
    assert any(expected in problem for problem in found), found
    if any(problem.startswith("error") for problem in found):
        with pytest.raises(BrokenFlowError):
            await result(opened, flow(reduce))


NULL = "is null if its item failed, as `keep_errors` says"


@pytest.mark.parametrize(
    ("value", "is_warned"),
    [
        ("${sum(each, item.price)}", True),
        ("${map(each, item.price)}", True),
        ("${each[0].price}", True),
        ("${sum(map(each, item.price ?? 0))}", False),
        ("${sum(filter(each, item), item.price)}", False),
        ("${filter(each, item and item.price > 1)}", False),
        ("${map(each, if(item, item.price, 0))}", False),
        ("${each[0].price ?? 0}", False),
        ("${len(each)}", False),
    ],
)
async def test_check_knows_that_a_kept_error_is_null(value: str, is_warned: bool, opened: OpenFlows) -> None:
    nodes = [
        {"id": "each", "tool": "find", "batch": {"over": ["a"], "item": "name", "keep_errors": True}},
        {"id": "after", "transform": {"x": value}},
    ]
    document: dict[str, Any] = {"nodes": nodes, "edges": [{"from": "each", "to": "after"}]}
    found = await problems(opened, document)
    assert any(NULL in problem for problem in found) == is_warned, found
    assert not any(problem.startswith("error") for problem in found)
    nodes[0]["batch"]["keep_errors"] = False
    assert not any(NULL in problem for problem in await problems(opened, document))


async def test_check_knows_it_of_an_argument_too(opened: OpenFlows) -> None:
    nodes = [
        {"id": "first", "tool": "label", "batch": {"over": ["a"], "item": "text", "keep_errors": True}},
        {
            "id": "again",
            "tool": "label",
            "params": {"text": "${one}"},
            "batch": {"over": "${first}", "item": "one"},
        },
    ]
    found = await problems(opened, {"nodes": nodes, "edges": [{"from": "first", "to": "again"}]})
    assert found == [f"warning: again: `text`: ${{one}} {NULL}"]
