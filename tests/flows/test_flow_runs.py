"""Flows as runs: what is kept of them, how they stop for people, and go on elsewhere."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

import spindle
from servers.flow_tools import TOOLS, OpenFlows
from spindle import Context, Finished, Paused, Principal, tool
from spindle.calls.caller import CallOptions, Clock
from spindle.errors import FlowError, NotFoundError, SpindleError
from spindle.flows import Ask, Batch, CacheRule, Flow, Node, Retry, ToolNode, context, flow_safe
from spindle.flows.build import build, definition_of
from spindle.flows.definition import FlowDefinition, NodeDefinition


def chain(*nodes: Node, **options: Any) -> Flow:
    for one, other in itertools.pairwise(nodes):
        one >> other
    return Flow(nodes[0], **options)


def finished(outcome: Any) -> Any:
    assert isinstance(outcome, Finished)
    return outcome.result.value


class Calls:
    """A tool that counts."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.fails = 0

        @tool(read_only=True)
        def work(text: str) -> str:
            self.seen.append(text)
            if self.fails:
                self.fails -= 1
                raise ValueError("not now")
            return f"<{text}>"

        @tool
        def effect(text: str) -> str:
            self.seen.append(text)
            return f"({text})"

        self.tools = [*TOOLS, work, effect]


# --- what is kept


async def test_a_trace_has_inputs_outputs_actions_and_attempts(opened: OpenFlows) -> None:
    calls = Calls()
    calls.fails = 2
    flow = chain(ToolNode("work", retry=Retry(3)), ToolNode("upper", params={"text": "${work}"}), name="t")
    async with opened(tools=calls.tools) as app:
        outcome = await app.run_flow(flow, text="a")
        run, given, events = await app.flows.trace(outcome.run_id)
    assert (run.name, run.kind, run.status) == ("t", "flow", "done")
    assert given["inputs"] == {"text": "a"}
    assert [(event.node, event.inputs, event.output, event.attempts) for event in events] == [
        ("work", {"text": "a"}, "<a>", 3),
        ("upper", {"text": "<a>"}, "<A>", 1),
    ]


async def test_a_run_is_found_by_a_beginning_of_its_id(opened: OpenFlows) -> None:
    async with opened() as app:
        outcome = await app.run_flow(Flow(ToolNode("nothing")))
        run, _, _ = await app.flows.trace(outcome.run_id[:10])
        assert run.id == outcome.run_id
        with pytest.raises(NotFoundError, match="there is no run 'nope'"):
            await app.flows.trace("nope")


async def test_nothing_of_a_run_is_in_the_store_in_clear(opened: OpenFlows, tmp_path: Path) -> None:
    async with opened() as app:
        await app.run_flow(
            chain(ToolNode("upper"), ToolNode("same", params={"value": "${upper}"})), text="hush-hush"
        )
    stored = b"".join(path.read_bytes() for path in (tmp_path / ".spindle").rglob("*") if path.is_file())
    assert stored
    assert b"hush-hush" not in stored.lower()


async def test_secret_arguments_are_masked_in_the_history(opened: OpenFlows) -> None:
    @tool
    def login(user: str, password: str) -> str:
        return user

    async with opened(tools=[login]) as app:
        outcome = await app.run_flow(Flow(ToolNode("login")), user="ann", password="open sesame")
        _, _, events = await app.flows.trace(outcome.run_id)
    assert "open sesame" not in str(events)
    assert events[0].inputs["user"] == "ann"


async def test_a_flow_that_fails_is_kept_as_such(opened: OpenFlows) -> None:
    async with opened() as app:
        with pytest.raises(SpindleError, match="no reason"):
            await app.run_flow(chain(ToolNode("upper"), ToolNode("fail")), text="a")
        (run,) = await app.flows.runs()
        _, _, events = await app.flows.trace(run.id)
    assert run.status == "failed"
    assert [event.node for event in events] == ["upper", "fail"]
    assert events[1].error is not None
    assert "no reason" in events[1].error["message"]


async def test_a_large_output_is_returned_whole(opened: OpenFlows) -> None:
    async with opened() as app:
        assert len(finished(await app.run_flow(Flow(ToolNode("upper")), text="x" * 300_000))) == 300_000


async def test_a_large_output_is_only_described(opened: OpenFlows) -> None:
    flow = chain(ToolNode("upper"), ToolNode("count", params={"text": "${upper}"}), name="big")
    async with opened() as app:
        outcome = await app.run_flow(flow, text="x" * 300_000)
        assert finished(outcome) == {"words": 1, "letters": 300_000}
        _, _, events = await app.flows.trace(outcome.run_id)
        assert events[0].output == {"$left_out": "300002 bytes"}
        with pytest.raises(FlowError, match="too large to be kept"):
            await app.flows.run(flow, start="count", reuse=outcome.run_id)


# --- again from a node


async def test_a_run_is_made_again_from_a_node(opened: OpenFlows) -> None:
    calls = Calls()
    flow = chain(
        ToolNode("effect", id="first"),
        ToolNode("effect", id="second", params={"text": "${first}"}),
        ToolNode("effect", id="third", params={"text": "${second}"}),
        name="again",
    )
    async with opened(tools=calls.tools) as app:
        outcome = await app.run_flow(flow, text="a")
        calls.seen.clear()
        again = await app.flows.run(flow, start="third", reuse=outcome.run_id)
        assert finished(again) == "(((a)))"
        assert calls.seen == ["((a))"]
        calls.seen.clear()
        only = await app.flows.run(flow, start="second", only=True, reuse=outcome.run_id)
        assert finished(only) == "((a))"
        assert calls.seen == ["(a)"]
        with pytest.raises(FlowError, match="no node 'thrid'") as caught:
            await app.flows.run(flow, start="thrid", reuse=outcome.run_id)
        assert caught.value.hint == "did you mean 'third'?"


# --- pauses


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_a_question_pauses_the_run_and_another_process_goes_on(
    tmp_path: Path, store: str, postgres_url: str
) -> None:
    calls = Calls()
    flow = chain(
        ToolNode("effect", id="before"),
        Ask("send ${before}?", {"type": "boolean"}, id="sure"),
        ToolNode("effect", id="after", params={"text": "${before} ${sure}"}),
    )
    address = "" if store == "sqlite" else f'store = "{postgres_url}"\n'
    (tmp_path / "spindle.toml").write_text(address)
    async with spindle.open(tmp_path, tools=calls.tools) as app:
        outcome = await app.run_flow(flow, text="a")
        assert isinstance(outcome, Paused)
        (pause,) = outcome.pauses
        assert (pause.kind, pause.message) == ("input", "send (a)?")
        assert (await app.flows.runs())[0].status == "paused"
    async with spindle.open(tmp_path, tools=calls.tools) as app:
        assert finished(await app.resume(pause.token, True)) == "((a) true)"
        run, _, events = await app.flows.trace(outcome.run_id)
    assert calls.seen == ["a", "(a) true"], "what was finished is not called again"
    assert run.status == "done"
    assert [event.node for event in events] == ["before", "sure", "after"]


async def test_who_will_not_answer_takes_the_edge_for_it(opened: OpenFlows) -> None:
    ask = Ask("may I?")
    ask >> ToolNode("same", id="yes", params={"value": "yes"})
    ask - "refused" >> ToolNode("same", id="no", params={"value": "${ask.error.message}"})
    async with opened() as app:
        paused = await app.run_flow(Flow(ask))
        assert isinstance(paused, Paused)
        assert finished(await app.resume(paused.pauses[0].token, refused="busy")) == {"value": "busy"}
        paused = await app.run_flow(Flow(Ask("may I?")))
        assert isinstance(paused, Paused)
        with pytest.raises(FlowError, match="was not answered: busy"):
            await app.resume(paused.pauses[0].token, refused="busy")


async def test_approval_pauses_the_whole_flow(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "t.py").write_text(
        "from spindle import tool\n@tool\ndef wipe(disk: str) -> str:\n    return f'wiped {disk}'\n"
    )
    (tmp_path / "spindle.toml").write_text('[sources.tools]\napprove = ["wipe"]\n')
    flow = chain(ToolNode("upper"), ToolNode("wipe", params={"disk": "${upper}"}))
    async with spindle.open(tmp_path, tools=TOOLS) as app:
        paused = await app.run_flow(flow, text="a")
        assert isinstance(paused, Paused)
        assert paused.pauses[0].details["arguments"] == {"disk": "A"}
    async with spindle.open(tmp_path, tools=TOOLS) as app:
        assert finished(await app.resume(paused.pauses[0].token, True)) == "wiped A"


async def test_what_nodes_of_python_did_is_not_done_again(opened: OpenFlows) -> None:
    done: list[str] = []

    class Fetch(Node):
        def prep(self, shared: Any) -> Any:
            return shared["text"]

        def exec(self, prep_res: Any) -> Any:
            done.append("fetch")
            return {"fetched": prep_res}

        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
            shared["fetched"] = exec_res["fetched"]

    class Unstorable(Node):
        def exec(self, prep_res: Any) -> Any:
            done.append("object")
            return object()

    class Asks(Node):
        async def exec(self, prep_res: Any) -> Any:
            done.append("asks")
            loud = await context().call("upper", text="x")
            return [loud.text, context().ask("well?")]

        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
            shared["answer"] = exec_res

    flow = chain(Fetch(), Unstorable(), Asks(), name="hand", outputs={"f": "${fetched}", "a": "${answer}"})
    async with opened(flows=[flow]) as app:
        paused = await app.run_flow(flow, text="t")
        assert isinstance(paused, Paused)
    async with opened(flows=[flow]) as app:
        assert finished(await app.resume(paused.pauses[0].token, "fine")) == {"f": "t", "a": ["X", "fine"]}
    assert done == ["fetch", "object", "asks", "object", "asks"], "only what JSON can hold is remembered"


async def test_a_run_of_a_flow_that_is_not_here_says_so(opened: OpenFlows) -> None:
    class Hand(Node):
        def exec(self, prep_res: Any) -> Any:
            return context().ask("well?")

    async with opened() as app:
        paused = await app.run_flow(Flow(Hand(), name="hand"))
        assert isinstance(paused, Paused)
        with pytest.raises(FlowError, match="needs a name"):
            await app.run_flow(Flow(Hand()))
    async with opened() as app:
        with pytest.raises(FlowError, match="written in Python and not known here"):
            await app.resume(paused.pauses[0].token, "fine")


async def test_a_node_outside_a_workspace_says_so() -> None:
    class Hand(Node):
        def exec(self, prep_res: Any) -> Any:
            return context().principal

    with pytest.raises(FlowError, match="does not run in a workspace"):
        await Flow(Hand()).run_async({})
    with pytest.raises(FlowError, match="a tool node runs in a workspace"):
        await Flow(ToolNode("upper")).run_async({"text": "a"})


async def test_a_cancelled_run_goes_on_where_it_was(opened: OpenFlows) -> None:
    reached, calls = asyncio.Event(), Calls()

    @tool(idempotent=True)
    async def stuck() -> str:
        reached.set()
        if len(calls.seen) == 1:
            calls.seen.append("stuck")
            await asyncio.Event().wait()
        return "free"

    flow = chain(ToolNode("effect"), ToolNode("stuck"))
    async with opened(tools=[*calls.tools, stuck]) as app:
        running = asyncio.create_task(app.run_flow(flow, text="a"))
        await reached.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        (run,) = await app.flows.runs()
        assert run.status == "cancelled"
        assert finished(await app.resume(run.id)) == "free"
        assert calls.seen == ["a", "stuck"]
        assert (await app.flows.runs())[0].status == "done"


# --- classes of their own


class Marked(ToolNode):
    def post(self, shared: Any, prep_res: Any, exec_res: Any) -> Any:
        shared["mark"] = "made"
        return super().post(shared, prep_res, exec_res)


class Prepared(Flow):
    def prep(self, shared: Any) -> None:
        shared["text"] = "prepared"


@pytest.mark.parametrize(
    ("flow", "given"),
    [
        (Flow(Marked("upper"), name="own", outputs={"is": "${mark}"}), {"is": "made"}),
        (Prepared(ToolNode("upper"), name="own"), "PREPARED"),
    ],
    ids=["node", "flow"],
)
async def test_methods_of_a_class_of_its_own_are_not_lost(opened: OpenFlows, flow: Flow, given: Any) -> None:
    async with opened() as app:
        assert finished(await app.run_flow(flow, text="a")) == given


@pytest.mark.parametrize("flow", [Flow(Marked("upper")), Prepared(ToolNode("upper"))], ids=["node", "flow"])
async def test_a_class_of_its_own_is_resumed_by_name_and_not_written(opened: OpenFlows, flow: Flow) -> None:
    async with opened() as app:
        with pytest.raises(FlowError, match="needs a name"):
            await app.run_flow(flow, text="a")
    with pytest.raises(FlowError, match="written in Python, which a file cannot hold"):
        definition_of(flow)


# --- for whom


async def test_a_flow_acts_for_its_caller(opened: OpenFlows) -> None:
    async with opened() as app:
        outcome = await app.run_flow(Flow(ToolNode("whose")), {}, CallOptions(Principal("ann")))
    assert finished(outcome) == "ann"


# --- purity


async def results_of(app: spindle.Spindle, flow: Flow, times: int, **inputs: Any) -> list[Any]:
    return [finished(await app.run_flow(flow, **inputs)) for _ in range(times)]


def cached(cache: CacheRule | None, tool: str = "work", node: CacheRule | bool | None = None) -> Flow:
    return build(FlowDefinition((NodeDefinition("n", tool, cache=node),), name="c", cache=cache))


@pytest.mark.parametrize(
    ("flow", "calls"),
    [
        (cached(None), 2),
        (cached(CacheRule()), 1),
        (cached(None, node=True), 1),
        (cached(CacheRule(), node=False), 2),
        (cached(None, node=CacheRule(60)), 1),
        (cached(CacheRule(), "effect"), 2),
    ],
    ids=["not asked for", "by the flow", "by the node", "not for this node", "with a time", "not pure"],
)
async def test_pure_tools_are_cached_where_asked_for(opened: OpenFlows, flow: Flow, calls: int) -> None:
    counting = Calls()
    async with opened(tools=counting.tools) as app:
        first, second = await results_of(app, flow, 2, text="a")
        assert first == second
        assert len(counting.seen) == calls
        await app.run_flow(flow, {"text": "a"}, CallOptions(use_cache=False))
        assert len(counting.seen) == calls + 1


async def test_a_cached_result_grows_old(opened: OpenFlows) -> None:
    counting, now = Calls(), [1000.0]
    async with opened(tools=counting.tools, clock=Clock(now=lambda: now[0])) as app:
        await results_of(app, cached(CacheRule(60)), 2, text="a")
        now[0] += 61
        await results_of(app, cached(CacheRule(60)), 1, text="a")
    assert len(counting.seen) == 2


async def test_a_flow_safe_function_is_pure(opened: OpenFlows) -> None:
    seen: list[str] = []

    @tool
    @flow_safe
    def clean(text: str) -> str:
        seen.append(text)
        return text.strip()

    async with opened(tools=[clean]) as app:
        await results_of(app, cached(CacheRule(), "clean"), 3, text="a")
    assert seen == ["a"]


@pytest.mark.parametrize(("loops", "calls"), [(False, 3), (True, 1)])
async def test_a_loop_is_not_served_what_is_old(opened: OpenFlows, loops: bool, calls: int) -> None:
    seen: list[int] = []

    @tool(read_only=True)
    def poll() -> dict[str, int]:
        seen.append(1)
        return {"n": len(seen)}

    class Again(Node):
        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> str | None:
            shared["turns"] = shared.get("turns", 0) + 1
            return "again" if shared["turns"] < 3 else None

    node = ToolNode("poll", cache=CacheRule(60, loops=loops))
    again = Again()
    node >> again
    again - "again" >> node
    async with opened(tools=[poll]) as app:
        await app.run_flow(Flow(node, name="loop"))
    assert len(seen) == calls


async def test_a_pure_node_of_python_is_cached_where_asked_for(opened: OpenFlows) -> None:
    done: list[str] = []

    @flow_safe
    class Slow(Node):
        def prep(self, shared: Any) -> Any:
            return shared["text"]

        def exec(self, prep_res: Any) -> Any:
            done.append(prep_res)
            return len(prep_res)

        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
            shared["n"] = exec_res

    flow = Flow(Slow(), name="slow", outputs={"n": "${n}"}, cache=CacheRule())
    async with opened() as app:
        assert await results_of(app, flow, 3, text="abc") == [{"n": 3}] * 3
        assert await results_of(app, flow, 1, text="abcd") == [{"n": 4}]
        run = (await app.flows.runs())[1]
        _, _, events = await app.flows.trace(run.id)
    assert done == ["abc", "abcd"]
    assert events[0].cached


# --- batches


async def test_a_thousand_items_through_a_tool_with_a_limit(opened: OpenFlows) -> None:
    running, most = 0, 0

    @tool
    async def slow(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(number % 3):
            await asyncio.sleep(0)
        running -= 1
        if number % 250 == 7:
            raise ValueError(f"{number} is unlucky")
        return number * 2

    batch = Batch("${numbers}", concurrency=20, keep_errors=True)
    node = ToolNode("slow", id="n", params={"number": "${item}"}, batch=batch)
    flow = Flow(node, outputs={"values": "${n}", "failed": "${n.failed}"})
    async with opened(tools=[slow]) as app:
        value = finished(await app.run_flow(flow, numbers=list(range(1000))))
    unlucky = [number for number in range(1000) if number % 250 == 7]
    assert value["values"] == [None if number in unlucky else number * 2 for number in range(1000)]
    assert [item["index"] for item in value["failed"]] == unlucky
    assert value["failed"][0]["error"]["message"] == "ValueError: 7 is unlucky"
    assert most <= 20


async def test_a_failed_item_ends_the_batch_and_is_named(opened: OpenFlows) -> None:
    seen: list[Any] = []

    @tool
    async def picky(number: int) -> int:
        seen.append(number)
        if number == 3:
            raise ValueError("not three")
        return number

    node = ToolNode("picky", params={"number": "${item}"}, batch=Batch("${numbers}", concurrency=1))
    async with opened(tools=[picky]) as app:
        with pytest.raises(
            FlowError, match=r"1 of 100 items failed \(4 were begun\): item 3: ValueError: not three"
        ):
            await app.run_flow(Flow(node), numbers=list(range(100)))
    assert seen == [0, 1, 2, 3]


# --- as data and back


def test_a_flow_of_tools_survives_being_data() -> None:
    ask = Ask("sure?", {"type": "boolean"}, id="ask")
    first = ToolNode(
        "a.b", params={"x": "${y}"}, inputs={"z": "q.r"}, outputs={"o": "p"}, retry=Retry(3, 1, 2)
    )
    last = ToolNode(
        "c", timeout=5, batch=Batch("${l}"), cache=CacheRule(9), fail_when="not ok", fingerprint="f"
    )
    inner = Flow(ToolNode("d"), id="inner")
    first >> ask >> inner >> last
    first - "rate_limited" >> last
    flow = Flow(first, name="n", description="d", inputs={"y": {"type": "string"}}, outputs={"o": "${p}"})
    definition = definition_of(flow)
    assert definition_of(build(definition)) == definition


def test_a_node_of_python_cannot_be_data() -> None:
    class Hand(Node):
        pass

    with pytest.raises(FlowError, match="a Hand written in Python"):
        definition_of(Flow(Hand()))


async def test_context_is_a_tools_own(opened: OpenFlows) -> None:
    @tool
    async def relay(text: str, context: Context) -> str:
        return (await context.call("upper", text=text)).text

    async with opened(tools=[*TOOLS, relay]) as app:
        assert finished(await app.run_flow(Flow(ToolNode("relay")), text="a")) == "A"


async def test_what_a_node_of_python_raises_fails_the_flow_and_names_the_node(opened: OpenFlows) -> None:
    class Breaks(Node):
        def exec(self, prep_res: Any) -> Any:
            raise KeyError("marks")

    inner = Flow(Breaks(id="deep"), id="inner")
    async with opened() as app:
        with pytest.raises(FlowError, match="node 'inner/deep' failed: KeyError: 'marks'") as caught:
            await app.run_flow(Flow(inner, name="breaks"))
        assert isinstance(caught.value.__cause__, KeyError)
        assert (await app.flows.runs())[0].status == "failed"


@pytest.mark.parametrize(
    ("written", "meant"),
    [("${qurey}", "did you mean ${query}?"), ("${person.nmae}", "did you mean ${person.name}?")],
)
async def test_a_mistyped_template_gets_a_suggestion(opened: OpenFlows, written: str, meant: str) -> None:
    flow = chain(ToolNode("person"), ToolNode("same", params={"value": written}))
    async with opened() as app:
        with pytest.raises(FlowError) as caught:
            await app.run_flow(flow, query="x")
    assert caught.value.hint == meant


async def test_secret_arguments_of_failed_items_are_not_in_the_error(opened: OpenFlows) -> None:
    @tool
    def login(user: str, password: str) -> str:
        raise ValueError("no")

    node = ToolNode("login", params={"user": "${item}"}, batch=Batch("${users}"))
    async with opened(tools=[login]) as app:
        with pytest.raises(FlowError) as caught:
            await app.run_flow(Flow(node), users=["ann"], password="open sesame")
    assert "open sesame" not in str(caught.value.to_dict())
    assert caught.value.details["failed"][0]["arguments"]["user"] == "ann"


async def test_runs_of_flows_are_found_behind_many_calls(opened: OpenFlows) -> None:
    @tool
    async def asks(context: Context) -> str:
        return context.ask("well?")

    async with opened(tools=[*TOOLS, asks]) as app:
        done = await app.run_flow(Flow(ToolNode("nothing"), name="found"))
        for _ in range(3):
            await app.run("asks")
        assert [run.id for run in await app.flows.runs(limit=2)] == [done.run_id]
        assert [run.id for run in await app.flows.runs(limit=2, flow="found")] == [done.run_id]
