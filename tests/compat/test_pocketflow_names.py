"""Programs written for pocketflow, run by it and by Spindle: only where the names come from differs."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from typing import Any

import pocketflow
import pytest

import spindle.compat.pocketflow

Program = Callable[[Any], Any]

PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


@program
def chain(pf: Any) -> Any:
    class Load(pf.Node):
        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
            shared["text"] = "one two three"

    class Count(pf.Node):
        def prep(self, shared: Any) -> Any:
            return shared["text"]

        def exec(self, prep_res: Any) -> Any:
            return len(prep_res.split())

        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
            shared["count"] = exec_res

    load, count = Load(), Count()
    load >> count
    shared: dict[str, Any] = {}
    return pf.Flow(start=load).run(shared), shared


@program
def branching(pf: Any) -> Any:
    class Check(pf.Node):
        def prep(self, shared: Any) -> Any:
            return shared["number"]

        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> str:
            return "positive" if prep_res > 0 else "negative"

    class Note(pf.Node):
        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
            shared.setdefault("notes", []).append(self.text)

    check, good, bad, end = Check(), Note("good"), Note("bad"), Note("end")
    check - "positive" >> good >> end
    check - "negative" >> bad >> end
    flow = pf.Flow(start=check)
    found: list[Any] = []
    for number in (5, -5):
        shared: dict[str, Any] = {"number": number}
        found.append((flow.run(shared), shared))
    return found


@program
def chat_that_ends_without_an_action(pf: Any) -> Any:
    class Chat(pf.Node):
        def prep(self, shared: Any) -> Any:
            return shared["inputs"].pop(0)

        def exec(self, prep_res: Any) -> Any:
            return prep_res.upper()

        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> str | None:
            shared["said"].append(exec_res)
            return "continue" if shared["inputs"] else None

    chat = Chat()
    chat - "continue" >> chat
    shared: dict[str, Any] = {"inputs": ["a", "b", "c"], "said": []}
    return pf.Flow(start=chat).run(shared), shared


@program
def agent_with_unknown_end(pf: Any) -> Any:
    class Decide(pf.Node):
        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> str:
            shared["turns"] = shared.get("turns", 0) + 1
            return "search" if shared["turns"] < 3 else "answer"

    class Search(pf.Node):
        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> str:
            shared.setdefault("searches", []).append(shared["turns"])
            return "decide"

    decide, search = Decide(), Search()
    decide - "search" >> search
    search - "decide" >> decide
    shared: dict[str, Any] = {}
    return pf.Flow(start=decide).run(shared), shared


@program
def retries_and_fallback(pf: Any) -> Any:
    class Flaky(pf.Node):
        attempts = 0

        def exec(self, prep_res: Any) -> Any:
            type(self).attempts += 1
            if self.cur_retry < 2:
                raise ValueError("not yet")
            return self.cur_retry

        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
            shared["result"] = exec_res

    class Hopeless(Flaky):
        def exec(self, prep_res: Any) -> Any:
            raise ValueError("never")

        def exec_fallback(self, prep_res: Any, exc: Exception) -> Any:
            return f"fallback: {exc}"

        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
            shared["fallback"] = exec_res

    a, b = Flaky(max_retries=3, wait=0), Hopeless(max_retries=2)
    a >> b
    shared: dict[str, Any] = {}
    pf.Flow(start=a).run(shared)
    return shared, Flaky.attempts


@program
def map_reduce(pf: Any) -> Any:
    class Map(pf.BatchNode):
        def prep(self, shared: Any) -> Any:
            return [shared["text"][start : start + 4] for start in range(0, len(shared["text"]), 4)]

        def exec(self, prep_res: Any) -> Any:
            return len(prep_res)

        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> str:
            shared["lengths"] = exec_res
            return "reduce"

    class Reduce(pf.Node):
        def prep(self, shared: Any) -> Any:
            return shared["lengths"]

        def exec(self, prep_res: Any) -> Any:
            return sum(prep_res)

        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
            shared["total"] = exec_res

    start = Map()
    start - "reduce" >> Reduce()
    shared: dict[str, Any] = {"text": "abcdefghijklm"}
    pf.Flow(start=start).run(shared)
    return shared


@program
def batch_flow_with_params(pf: Any) -> Any:
    class Read(pf.Node):
        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
            shared.setdefault("seen", []).append((self.params["file"], self.params.get("mode")))

    class Files(pf.BatchFlow):
        def prep(self, shared: Any) -> Any:
            return [{"file": name} for name in shared["files"]]

        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> str:
            shared["done"] = len(prep_res)
            return "finished"

    flow = Files(start=Read())
    flow.set_params({"mode": "r"})
    shared: dict[str, Any] = {"files": ["a", "b"]}
    return flow.run(shared), shared


@program
def nested_batch_flows(pf: Any) -> Any:
    class Leaf(pf.Node):
        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
            shared.setdefault("seen", []).append((self.params["folder"], self.params["file"]))

    class Inner(pf.BatchFlow):
        def prep(self, shared: Any) -> Any:
            return [{"file": name} for name in shared["tree"][self.params["folder"]]]

    class Outer(pf.BatchFlow):
        def prep(self, shared: Any) -> Any:
            return [{"folder": name} for name in shared["tree"]]

    shared: dict[str, Any] = {"tree": {"x": ["1", "2"], "y": ["3"]}}
    Outer(start=Inner(start=Leaf())).run(shared)
    return shared


@program
def nested_flow_as_node(pf: Any) -> Any:
    class Add(pf.Node):
        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> str | None:
            shared["sum"] = shared.get("sum", 0) + self.number
            return "big" if shared["sum"] > 10 else None

    inner = pf.Flow(start=Add(20))
    after, small = Add(100), Add(1000)
    inner - "big" >> after
    inner >> small
    shared: dict[str, Any] = {}
    return pf.Flow(start=inner).run(shared), shared


@program
def async_flow(pf: Any) -> Any:
    class Fetch(pf.AsyncNode):
        async def prep_async(self, shared: Any) -> Any:
            return shared["name"]

        async def exec_async(self, prep_res: Any) -> Any:
            await asyncio.sleep(0)
            return f"hello {prep_res}"

        async def post_async(self, shared: Any, prep_res: Any, exec_res: Any) -> str:
            shared["greeting"] = exec_res
            return "loud"

    class Loud(pf.Node):
        def prep(self, shared: Any) -> Any:
            return shared["greeting"]

        def exec(self, prep_res: Any) -> Any:
            return prep_res.upper()

        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
            shared["loud"] = exec_res

    fetch = Fetch()
    fetch - "loud" >> Loud()
    shared: dict[str, Any] = {"name": "ada"}
    return asyncio.run(pf.AsyncFlow(start=fetch).run_async(shared)), shared


@program
def async_retries_and_fallback(pf: Any) -> Any:
    class Fails(pf.AsyncNode):
        async def exec_async(self, prep_res: Any) -> Any:
            raise ValueError("never")

        async def exec_fallback_async(self, prep_res: Any, exc: Exception) -> Any:
            return f"fallback: {exc}"

        async def post_async(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
            shared["result"] = exec_res

    shared: dict[str, Any] = {}
    asyncio.run(pf.AsyncFlow(start=Fails(max_retries=2)).run_async(shared))
    return shared


def _async_batch(pf: Any, kind: str) -> Any:
    class Items(getattr(pf, kind)):  # type: ignore[misc]
        async def prep_async(self, shared: Any) -> Any:
            return shared["items"]

        async def exec_async(self, prep_res: Any) -> Any:
            await asyncio.sleep(0)
            return prep_res * 2

        async def post_async(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
            shared["doubled"] = exec_res

    shared: dict[str, Any] = {"items": list(range(30))}
    asyncio.run(Items().run_async(shared))
    return shared


@program
def async_batch(pf: Any) -> Any:
    return _async_batch(pf, "AsyncBatchNode")


@program
def async_parallel_batch(pf: Any) -> Any:
    return _async_batch(pf, "AsyncParallelBatchNode")


def _async_batch_flow(pf: Any, kind: str) -> Any:
    class Leaf(pf.AsyncNode):
        async def exec_async(self, prep_res: Any) -> Any:
            await asyncio.sleep(0)
            return self.params["number"] ** 2

        async def post_async(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
            shared["squares"][self.params["number"]] = exec_res

    class Numbers(getattr(pf, kind)):  # type: ignore[misc]
        async def prep_async(self, shared: Any) -> Any:
            return [{"number": number} for number in range(5)]

    shared: dict[str, Any] = {"squares": {}}
    asyncio.run(Numbers(start=Leaf()).run_async(shared))
    return shared


@program
def async_batch_flow(pf: Any) -> Any:
    return _async_batch_flow(pf, "AsyncBatchFlow")


@program
def async_parallel_batch_flow(pf: Any) -> Any:
    return _async_batch_flow(pf, "AsyncParallelBatchFlow")


@program
def state_on_the_node_is_gone_after_a_visit(pf: Any) -> Any:
    class Keeps(pf.Node):
        kept = 0

        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> str | None:
            self.kept += 1
            shared.setdefault("kept", []).append(self.kept)
            return "again" if len(shared["kept"]) < 3 else None

    node = Keeps()
    node - "again" >> node
    shared: dict[str, Any] = {}
    pf.Flow(start=node).run(shared)
    return shared, node.kept


@program
def flow_with_prep_and_post(pf: Any) -> Any:
    class Inner(pf.Node):
        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> str:
            shared["order"].append("node")
            return "last"

    class Outer(pf.Flow):
        def prep(self, shared: Any) -> Any:
            shared["order"] = ["prep"]
            return "prepared"

        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> str:
            shared["order"].append("post")
            return f"{prep_res} {exec_res}"

    shared: dict[str, Any] = {}
    return Outer(start=Inner()).run(shared), shared


@program
def started_by_method(pf: Any) -> Any:
    class Set(pf.Node):
        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
            shared["set"] = True

    flow = pf.Flow()
    flow.start(Set())
    shared: dict[str, Any] = {}
    flow.run(shared)
    return shared


@program
def a_failing_program(pf: Any) -> Any:
    class Fails(pf.Node):
        def exec(self, prep_res: Any) -> Any:
            raise LookupError("gone")

    try:
        pf.Flow(start=Fails(max_retries=2)).run({})
    except LookupError as error:
        return repr(error)
    return "no error"


@program
def the_base_of_all_nodes(pf: Any) -> Any:
    class Once(pf.BaseNode):
        def prep(self, shared: Any) -> Any:
            return shared["number"]

        def exec(self, prep_res: Any) -> Any:
            return prep_res * 2

        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> str:
            shared["double"] = exec_res
            return "done"

    shared: dict[str, Any] = {"number": 4}
    alone = Once().run(shared)
    kinds = [
        getattr(pf, name) for name in ("Node", "Flow", "AsyncFlow", "AsyncParallelBatchNode", "BatchFlow")
    ]
    return alone, pf.Flow(start=Once()).run(shared), shared, [issubclass(kind, pf.BaseNode) for kind in kinds]


@program
def no_try_at_all(pf: Any) -> Any:
    class Idle(pf.Node):
        def exec(self, prep_res: Any) -> Any:
            raise AssertionError("nobody calls it")

        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
            shared["result"] = exec_res

    class Several(pf.BatchNode):
        def prep(self, shared: Any) -> Any:
            return [1, 2]

        def exec(self, prep_res: Any) -> Any:
            raise AssertionError("nobody calls it")

        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
            shared["several"] = exec_res

    idle = Idle(max_retries=0)
    idle >> Several(max_retries=0)
    shared: dict[str, Any] = {}
    pf.Flow(start=idle).run(shared)
    return shared


@program
def params_of_the_flow_replace_those_of_its_nodes(pf: Any) -> Any:
    class Sees(pf.Node):
        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
            shared.setdefault("seen", []).append(dict(self.params))
            self.params["left"] = len(shared["seen"])

    first, second = Sees(), Sees()
    first.set_params({"own": 1})
    second.set_params({"own": 2})
    first >> second
    flow = pf.Flow(start=first)
    shared: dict[str, Any] = {}
    flow.run(shared)
    flow.set_params({"whole": 3})
    flow.run(shared)
    return shared, first.params, flow.params


@program
def an_action_that_is_no_text(pf: Any) -> Any:
    class Says(pf.Node):
        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> Any:
            return shared["says"]

    class Marks(pf.Node):
        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
            shared["marked"] = True

    found: list[Any] = []
    for says in (True, 0, "", "else", None):
        node = Says()
        node >> Marks()
        shared: dict[str, Any] = {"says": says}
        found.append((pf.Flow(start=node).run(shared), shared))
    return found


@program
def a_loop_of_many_rounds(pf: Any) -> Any:
    class Counts(pf.Node):
        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> str:
            shared["count"] += 1
            return "again" if shared["count"] < 3000 else "enough"

    counts = Counts()
    counts - "again" >> counts
    shared = {"count": 0}
    return pf.Flow(start=counts).run(shared), shared


@program
def sync_work_in_an_async_flow_stays_in_its_thread(pf: Any) -> Any:
    import sqlite3

    database = sqlite3.connect(":memory:")  # refuses to be used from another thread

    class Asks(pf.Node):
        def exec(self, prep_res: Any) -> Any:
            return database.execute("select 6 * 7").fetchone()

        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
            shared["answer"] = exec_res

    shared: dict[str, Any] = {}
    asyncio.run(pf.AsyncFlow(start=Asks()).run_async(shared))
    database.close()
    return shared


@program
def the_way_to_the_next_node_can_be_told(pf: Any) -> Any:
    class Told(pf.Flow):
        def get_next_node(self, curr: Any, action: Any) -> Any:
            ways.append((type(curr).__name__, action))
            return super().get_next_node(curr, action)

    class A(pf.Node):
        pass

    class B(pf.Node):
        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> str:
            return "end"

    ways: list[Any] = []
    a = A()
    a >> B()
    return Told(start=a).run({}), ways


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_the_same(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pocketflow warns where a flow ends by an action without an edge
        theirs = PROGRAMS[name](pocketflow)
        ours = PROGRAMS[name](spindle.compat.pocketflow)
    assert ours == theirs


def test_an_end_by_an_action_without_an_edge_is_warned_of() -> None:
    names = spindle.compat.pocketflow

    class Ends(names.Node):
        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> str:
            return "finish"

    ends = Ends()
    ends - "finsih" >> names.Node()
    with pytest.warns(UserWarning, match="no edge for 'finish', only for 'finsih'"):
        assert names.Flow(start=ends).run({}) == "finish"
