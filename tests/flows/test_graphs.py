"""Any graph of nodes ends, or is stopped by the limit of visits; and what is recorded is what was run."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import spindle
from servers.examples import examples
from servers.flow_tools import TOOLS
from spindle import Finished
from spindle.errors import FlowError
from spindle.flows import Flow, Node
from spindle.settings import Settings

ACTIONS = ("default", "left", "right")
LIMIT = 5


class Step(Node):
    """Chooses the next of its actions at each visit, and writes down that it was there."""

    def __init__(self, name: str, actions: list[str], log: list[str], counts: Counter[str]) -> None:
        super().__init__(id=name)
        self.actions = actions
        self.log = log
        self.counts = counts

    def exec(self, prep_res: Any) -> Any:
        self.log.append(str(self.id))
        return self.actions[(self.counts[str(self.id)]) % len(self.actions)]

    def post(self, shared: Any, prep_res: Any, exec_res: Any) -> str:
        self.counts[str(self.id)] += 1
        return exec_res


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[list[str]], list[tuple[int, str, int]], bool]:
    """For each node the actions it will choose; edges; and whether an unknown action ends the flow."""
    size = draw(st.integers(1, 8))
    nodes = [draw(st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=4)) for _ in range(size)]
    index = st.integers(0, size - 1)
    edges = draw(st.lists(st.tuples(index, st.sampled_from(ACTIONS), index), max_size=20))
    return nodes, edges, draw(st.booleans())


def built(
    graph: tuple[list[list[str]], list[tuple[int, str, int]], bool], log: list[str], name: str = "g"
) -> Flow:
    nodes, edges, ends = graph
    counts: Counter[str] = Counter()
    made = [Step(f"n{number}", actions, log, counts) for number, actions in enumerate(nodes)]
    for source, action, target in edges:
        made[source].successors[action] = made[target]
    return Flow(made[0], on_unknown="end" if ends else "error", max_visits=LIMIT, name=name)


def expected(graph: tuple[list[list[str]], list[tuple[int, str, int]], bool]) -> tuple[list[str], str | None]:
    """Which nodes are visited, and how it ends, worked out without any flow."""
    nodes, edges, ends = graph
    successors: dict[int, dict[str, int]] = {}
    for source, action, target in edges:
        successors.setdefault(source, {})[action] = target
    visited: list[str] = []
    counts: Counter[int] = Counter()
    current: int | None = 0
    while current is not None:
        if counts[current] == LIMIT:
            return visited, "visited"
        action = nodes[current][counts[current] % len(nodes[current])]
        visited.append(f"n{current}")
        counts[current] += 1
        known = successors.get(current, {})
        if known and action not in known and action != "default" and not ends:
            return visited, "no edge"
        current = known.get(action)
    return visited, None


@given(graphs())
@examples(200)
def test_every_graph_ends(graph: Any) -> None:
    log: list[str] = []
    visited, problem = expected(graph)
    if problem is None:
        built(graph, log).run({})
    else:
        with pytest.raises(FlowError, match=problem):
            built(graph, log).run({})
    assert log == visited


@given(graphs())
@examples(25)
async def test_what_is_recorded_is_what_was_run(tmp_path_factory: Any, graph: Any) -> None:
    log: list[str] = []
    root = tmp_path_factory.mktemp("graph")
    async with spindle.open(settings=Settings(root, {"store": ":memory:"}), tools=TOOLS) as app:
        flow = built(graph, log)
        observed: list[str] = []
        try:
            outcome = await app.flows.run(
                flow, observe=lambda event: observed.append(f"{event.kind} {event.node}")
            )
            assert isinstance(outcome, Finished)
            run_id = outcome.run_id
        except FlowError:
            run_id = (await app.flows.runs())[0].id
        run, _, events = await app.flows.trace(run_id)
        assert [event.node for event in events] == log
        assert [event.action for event in events] == [event.output for event in events]
        for node in set(log):
            assert [event.visit for event in events if event.node == node] == list(
                range(1, log.count(node) + 1)
            )
        assert observed == [f"{kind} {node}" for node in log for kind in ("started", "ended")]
        assert run.status == ("done" if expected(graph)[1] is None else "failed")
