"""Nodes and flows by themselves: no workspace, no tools."""

from __future__ import annotations

import asyncio
import itertools
import threading
import warnings
from typing import Any

import pytest

from spindle.errors import FlowError
from spindle.flows import BatchNode, Flow, Node, ParallelBatchNode, map_concurrent


class Say(Node):
    """Appends its word to what was said, and chooses an action."""

    def __init__(self, word: str, action: Any = None, **options: Any) -> None:
        super().__init__(**options)
        self.word = word
        self.action = action

    def prep(self, shared: Any) -> Any:
        return list(shared.setdefault("said", []))

    def exec(self, prep_res: Any) -> Any:
        return [*prep_res, self.word]

    def post(self, shared: Any, prep_res: Any, exec_res: Any) -> Any:
        shared["said"] = exec_res
        return self.action


class SayLater(Say):
    async def exec(self, prep_res: Any) -> Any:
        await asyncio.sleep(0)
        return [*prep_res, self.word]


def said(flow: Flow) -> list[str]:
    shared: dict[str, Any] = {}
    flow.run(shared)
    return shared["said"]


async def said_async(flow: Flow) -> list[str]:
    shared: dict[str, Any] = {}
    await flow.run_async(shared)
    return shared["said"]


# --- order and actions


def test_nodes_run_one_after_the_other() -> None:
    a, b, c = Say("a"), Say("b"), Say("c")
    assert (a >> b >> c) is c
    assert said(Flow(a)) == ["a", "b", "c"]


async def test_sync_and_async_nodes_mix() -> None:
    a, b, c = Say("a"), SayLater("b"), Say("c")
    a >> b >> c
    assert await said_async(Flow(a)) == ["a", "b", "c"]


def test_async_nodes_run_in_a_program_without_a_loop() -> None:
    a, b = SayLater("a"), SayLater("b")
    a >> b
    assert said(Flow(a)) == ["a", "b"]


async def test_blocking_run_of_sync_nodes_works_inside_a_loop() -> None:
    a, b = Say("a"), Say("b")
    a >> b
    assert said(Flow(a)) == ["a", "b"]


async def test_blocking_run_of_async_nodes_inside_a_loop_says_what_to_do() -> None:
    with pytest.raises(RuntimeError, match=r"await flow\.run_async"):
        said(Flow(SayLater("a")))


def test_an_action_chooses_the_edge() -> None:
    a, b, c = Say("a", "other"), Say("b"), Say("c")
    a >> b
    a - "other" >> c
    assert said(Flow(a)) == ["a", "c"]


def test_default_without_an_edge_ends_the_flow() -> None:
    a, b = Say("a"), Say("b")
    a - "other" >> b
    assert said(Flow(a)) == ["a"]


def test_an_unknown_action_is_an_error_with_a_suggestion() -> None:
    a, b = Say("a", "retyr"), Say("b")
    a - "retry" >> b
    with pytest.raises(FlowError) as caught:
        said(Flow(a))
    assert "'retyr'" in caught.value.message
    assert caught.value.hint == "did you mean 'retry'?"


def test_a_flow_may_say_that_unknown_actions_end_it() -> None:
    a, b = Say("a", "done"), Say("b")
    a >> b
    assert said(Flow(a, on_unknown="end")) == ["a"]


def test_an_action_of_a_node_without_edges_is_the_flows_own() -> None:
    assert Flow(Say("a", "finished")).run({}) == "finished"


@pytest.mark.parametrize("value", [{"a": 1}, ["x"], 3, True])
def test_a_result_is_not_taken_for_an_action(value: Any) -> None:
    a, b = Say("a", value), Say("b")
    a >> b
    with pytest.raises(FlowError, match="not an action"):
        said(Flow(a))


def test_an_action_must_be_a_text() -> None:
    with pytest.raises(TypeError, match="an action is a text"):
        Say("a") - 3  # type: ignore[operator]


def test_replacing_an_edge_is_warned_of() -> None:
    a = Say("a")
    a >> Say("b")
    with pytest.warns(UserWarning, match="is replaced"):
        a >> Say("c")


# --- loops


def test_a_loop_ends_when_its_node_says_so() -> None:
    class Count(Node):
        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> str | None:
            shared["n"] = shared.get("n", 0) + 1
            return "again" if shared["n"] < 50 else None

    node = Count()
    node - "again" >> node
    shared: dict[str, Any] = {}
    Flow(node).run(shared)
    assert shared["n"] == 50


def test_an_endless_loop_is_stopped_and_named() -> None:
    a, b = Say("a", id="first"), Say("b")
    a >> b >> a
    with pytest.raises(FlowError, match="node 'first' was visited 5 times"):
        said(Flow(a, max_visits=5))


def test_the_limit_is_for_each_node() -> None:
    nodes = [Say(str(number)) for number in range(2000)]
    for one, next in itertools.pairwise(nodes):
        one >> next
    assert len(said(Flow(nodes[0], max_visits=1))) == 2000


# --- attempts


class Flaky(Node):
    def __init__(self, failures: int, **options: Any) -> None:
        super().__init__(**options)
        self.failures = failures
        self.seen: list[int] = []

    def exec(self, prep_res: Any) -> Any:
        self.seen.append(self.cur_retry)
        if self.cur_retry < self.failures:
            raise ValueError(f"attempt {self.cur_retry}")
        return "done"

    def post(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
        shared["result"] = exec_res


def test_attempts_are_counted_in_all() -> None:
    shared: dict[str, Any] = {}
    node = Flaky(2, max_retries=3)
    node.run(shared)
    assert shared["result"] == "done"
    assert node.seen == [0, 1, 2]


def test_the_last_attempts_error_is_raised() -> None:
    with pytest.raises(ValueError, match="attempt 1"):
        Flaky(9, max_retries=2).run({})


def test_less_than_one_attempt_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Node(max_retries=0)


def test_a_fallback_stands_in_for_the_result() -> None:
    class Careful(Flaky):
        def exec_fallback(self, prep_res: Any, exc: Exception) -> Any:
            return f"instead of {exc}"

    shared: dict[str, Any] = {}
    Careful(9, max_retries=2).run(shared)
    assert shared["result"] == "instead of attempt 1"


async def test_waits_grow_by_the_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("spindle.flows.run_context.asyncio.sleep", sleep)
    await Flaky(3, max_retries=4, wait=1, backoff=3).run_async({})
    assert waits == [1, 3, 9]


async def test_attempts_belong_to_the_run_not_to_the_node() -> None:
    both = asyncio.Barrier(2)

    class Shared(Node):
        async def exec(self, prep_res: Any) -> Any:
            await both.wait()
            if self.cur_retry == 0:
                raise ValueError
            return self.cur_retry

        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
            shared["attempt"] = exec_res

    flow = Flow(Shared(max_retries=2))
    first: dict[str, Any] = {}
    second: dict[str, Any] = {}
    await asyncio.gather(flow.run_async(first), flow.run_async(second))
    assert first == second == {"attempt": 1}


async def test_a_sync_exec_delays_nobody() -> None:
    released = threading.Event()

    class Blocks(Node):
        def exec(self, prep_res: Any) -> Any:
            assert released.wait(300)
            return "done"

        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
            shared["result"] = exec_res

    shared: dict[str, Any] = {}
    running = asyncio.create_task(Flow(Blocks()).run_async(shared))
    await asyncio.sleep(0)
    released.set()  # this would never be reached if the loop were blocked
    await running
    assert shared["result"] == "done"


# --- params


class Param(Node):
    def post(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
        shared[self.id] = dict(self.params)


def test_flow_params_go_under_a_nodes_own() -> None:
    node = Param(id="node")
    node.set_params({"a": "node"})
    flow = Flow(node)
    flow.set_params({"a": "flow", "b": "flow"})
    shared: dict[str, Any] = {}
    flow.run(shared)
    assert shared["node"] == {"a": "node", "b": "flow"}
    assert node.params == {"a": "node"}, "a run leaves the node as it was"


def test_params_reach_inner_flows() -> None:
    inner = Flow(Param(id="node"))
    inner.set_params({"b": "inner"})
    outer = Flow(inner)
    outer.set_params({"a": "outer", "b": "outer"})
    shared: dict[str, Any] = {}
    outer.run(shared)
    assert shared["node"] == {"a": "outer", "b": "inner"}


# --- flows in flows


def test_a_flow_is_a_node_and_passes_its_last_action_on() -> None:
    inner = Flow(Say("inner", "chosen"))
    chosen, other = Say("chosen"), Say("other")
    inner >> other
    inner - "chosen" >> chosen
    assert said(Flow(inner)) == ["inner", "chosen"]


def test_a_flow_may_choose_another_action_in_post() -> None:
    class Inner(Flow):
        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> str:
            return f"{exec_res}!"

    inner = Inner(Say("inner", "go"))
    inner - "go!" >> Say("next")
    assert said(Flow(inner)) == ["inner", "next"]


def test_a_node_run_alone_warns_of_its_successors() -> None:
    a = Say("a")
    a >> Say("b")
    shared: dict[str, Any] = {}
    with pytest.warns(UserWarning, match="runs alone"):
        a.run(shared)
    assert shared["said"] == ["a"]


def test_an_error_leaves_the_flow_as_it_was() -> None:
    class Fails(Node):
        def exec(self, prep_res: Any) -> Any:
            raise KeyError("x")

    with pytest.raises(KeyError, match="x"):
        Flow(Fails()).run({})


def test_the_same_flow_can_be_run_again() -> None:
    a, b = Say("a"), Say("b")
    a >> b
    flow = Flow(a)
    assert [said(flow) for _ in range(3)] == [["a", "b"]] * 3


def test_no_warning_in_a_plain_flow() -> None:
    a, b = Say("a"), Say("b")
    a >> b
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        said(Flow(a))


# --- batches


class Squares(BatchNode):
    def prep(self, shared: Any) -> Any:
        return shared["numbers"]

    def exec(self, prep_res: Any) -> Any:
        return prep_res**2

    def post(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
        shared["squares"] = exec_res


class ParallelSquares(ParallelBatchNode):
    prep = Squares.prep
    post = Squares.post

    async def exec(self, prep_res: Any) -> Any:
        await asyncio.sleep(0)
        return prep_res**2


@pytest.mark.parametrize("kind", [Squares, ParallelSquares])
@pytest.mark.parametrize("numbers", [None, [], [3], list(range(100))])
def test_a_batch_keeps_its_order(kind: type[Node], numbers: list[int] | None) -> None:
    shared: dict[str, Any] = {"numbers": numbers}
    kind().run(shared)
    assert shared["squares"] == [number**2 for number in numbers or ()]


async def test_a_parallel_batch_keeps_its_limit() -> None:
    running, most = 0, 0

    class Counted(ParallelBatchNode):
        def prep(self, shared: Any) -> Any:
            return range(100)

        async def exec(self, prep_res: Any) -> Any:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1

    await Counted(max_concurrency=7).run_async({})
    assert most == 7


def test_items_of_a_batch_have_attempts_of_their_own() -> None:
    class Items(ParallelBatchNode):
        def prep(self, shared: Any) -> Any:
            return [0, 1, 2]

        def exec(self, prep_res: Any) -> Any:
            if self.cur_retry < prep_res:
                raise ValueError
            return (prep_res, self.cur_retry)

        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
            shared["items"] = exec_res

    shared: dict[str, Any] = {}
    Items(max_retries=3).run(shared)
    assert shared["items"] == [(0, 0), (1, 1), (2, 2)]


# --- map_concurrent


async def test_map_concurrent_keeps_order_and_limit() -> None:
    running, most = 0, 0

    async def work(item: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(item % 5):
            await asyncio.sleep(0)
        running -= 1
        return item * 2

    assert await map_concurrent(work, range(50), 4) == [item * 2 for item in range(50)]
    assert most == 4


async def test_map_concurrent_takes_what_comes_later() -> None:
    async def items() -> Any:
        for item in "abc":
            await asyncio.sleep(0)
            yield item

    async def work(item: str) -> str:
        return item.upper()

    assert await map_concurrent(work, items(), 2) == ["A", "B", "C"]


async def test_map_concurrent_stops_at_the_first_error() -> None:
    begun: list[int] = []
    ended: list[int] = []

    async def work(item: int) -> None:
        begun.append(item)
        if item == 2:
            raise ValueError("two")
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(item)

    with pytest.raises(ValueError, match="two"):
        await map_concurrent(work, range(100), 3)
    assert begun == [0, 1, 2]
    assert sorted(ended) == [0, 1], "those that ran were cancelled"


async def test_map_concurrent_of_nothing() -> None:
    async def work(item: int) -> int:
        return item

    assert await map_concurrent(work, [], 3) == []
    with pytest.raises(ValueError, match="at least 1"):
        await map_concurrent(work, [1], 0)
