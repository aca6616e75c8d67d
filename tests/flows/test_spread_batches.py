"""Batches over workers: the same results as in one process, in parts that workers do as runs of their own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import spindle
from servers.workers import until_it_is
from spindle.app import Spindle
from spindle.errors import FlowError, SpindleError
from spindle.flows.batch_items import BatchItems
from spindle.flows.definition import Batch
from spindle.flows.expressions.paths import MISSING
from spindle.flows.failures import NodeFailure
from spindle.flows.node_done import NodeDone
from spindle.flows.part_work import traced_item
from spindle.flows.spread import MOST_PARTS, size_of_parts
from spindle.runs.outcomes import Finished, Paused
from spindle.runs.parts import ids_of
from spindle.serving.working import work

TOOLS = '''
import json
from pathlib import Path
from spindle import Context, NotFoundError, Result, ToolError, tool

HERE = Path(__file__).parent.parent


@tool(idempotent=True)
def square(item: object, fixed: str = "", way: str = "plain"):
    """Do something with an item."""
    with open(HERE / "log", "a") as log:
        log.write(json.dumps(item) + "\\n")
    if item == "ask-not" or (item in (13, "13") and not (HERE / "fixed").exists()):
        raise ToolError(f"{item!r} is unlucky")
    if item == 404:
        raise NotFoundError("there is no such item", hint="look elsewhere")
    if way == "text":
        return Result.of_text(json.dumps({"of": item, "a": [1, 2]}, indent=3))
    if way == "none":
        return None
    return item * item if isinstance(item, int) else {"of": item, "fixed": fixed}


@tool(idempotent=True)
def approve(item: int, ctx: Context) -> int:
    """Ask before some."""
    return item + (ctx.ask("How much more?", {"type": "integer"}) if item == 2 else 0)
'''
FLOW = """
inputs: {items: {type: array}, way: {type: string, default: plain}}
nodes:
- {id: each, tool: square, params: {item: "${item}", way: "${way}"}, batch: BATCH}
- {id: after, transform: {seen: "${each}", failed: "${each.failed ?? null}", text: "got ${each}"}}
edges: [{from: each, to: after}]
outputs: {seen: "${seen}", failed: "${failed}", text: "${text}"}
"""


def flow(**batch: Any) -> str:
    return FLOW.replace("BATCH", json.dumps({"over": "${items}", "concurrency": 3, **batch}))


ASKING = """
nodes:
- {id: each, tool: approve, params: {item: "${item}"}, batch: {over: [1, 2, 3], spread: 1}}
outputs: {seen: "${each}"}
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spread")
    for name, text in {
        "spindle.toml": "",
        "tools/squares.py": TOOLS,
        "flows/keeping.yaml": flow(keep_errors=True, spread=3),
        "flows/failing.yaml": flow(spread=2),
        "flows/asking.yaml": ASKING,
        "flows/long.yaml": flow(spread=True),
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


@contextlib.asynccontextmanager
async def working(root: Path, *, works: bool = True) -> AsyncIterator[Spindle]:
    for name in ("log", "fixed"):
        (root / name).unlink(missing_ok=True)
    async with spindle.open(root) as app:
        await app.sync()
        notes: list[str] = []
        task = asyncio.create_task(work(app, ["default"], None, notes.append)) if works else None
        try:
            yield app
        finally:
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
    assert notes == []


async def submitted(app: Spindle, name: str, **inputs: Any) -> Any:
    """What becomes of a submitted run: its result, or its error."""
    run = await app.submit(name, inputs)
    ended = await until_it_is(app, run.id, "done", "failed")
    try:
        return ended.id, (await app.runner.outcome(ended)).structured
    except SpindleError as error:
        return ended.id, error


async def here(app: Spindle, name: str, **inputs: Any) -> Any:
    try:
        outcome = await app.run_flow(name, inputs)
    except SpindleError as error:
        return error
    assert isinstance(outcome, Finished)
    return outcome.result.structured


def some_items(chance: random.Random) -> list[Any]:
    kinds = (
        lambda: chance.randint(-5, 20), lambda: 404, lambda: "ask-not", lambda: None, lambda: "${secrets.x}",
        lambda: chance.choice(["", "a b", "é\u2028", '{"a": 1}', "${item}"]),
        lambda: {"n": chance.randint(0, 9), "deep": [chance.random()]},
    )  # fmt: skip
    return [chance.choice(kinds)() for _ in range(chance.choice([0, 1, 3, 4, 11]))]


@pytest.mark.parametrize("way", ["plain", "text", "none"])
async def test_local_and_spread_batches_give_the_same_whatever_the_items_are(root: Path, way: str) -> None:
    chance = random.Random(way)
    async with working(root) as app:
        for _ in range(4):
            items = some_items(chance)
            local = await here(app, "keeping", items=items, way=way)
            _, spread = await submitted(app, "keeping", items=items, way=way)
            assert spread == local, items


async def test_failed_items_are_named_and_only_they_are_made_again(root: Path) -> None:
    items = list(range(10, 22))
    async with working(root) as app:
        local = await here(app, "failing", items=items)
        (root / "log").unlink()
        id, failed = await submitted(app, "failing", items=items)
        assert isinstance(local, SpindleError)
        assert isinstance(failed, SpindleError)
        assert [item["index"] for item in failed.details["failed"]] == [3]  # pyright: ignore[reportOptionalSubscript, reportCallIssue, reportArgumentType]
        assert failed.details["failed"] == local.details["failed"]  # pyright: ignore[reportOptionalSubscript, reportCallIssue, reportArgumentType]
        assert "item 3: " in failed.message
        parts = await app.store.parts(ids_of(id))
        assert len(parts) == 6
        assert not {"queued", "running", "paused"} & set(parts.values())
        assert [run.kind for run in await app.store.runs(limit=-1, status="failed")].count("part") == 0
        (root / "fixed").touch()
        assert await app.runner.submissions.retry(id) is None
        await until_it_is(app, id, "done")
        done = (await app.runner.outcome(await app.store.run(id))).structured  # pyright: ignore[reportArgumentType]
        assert done["seen"] == [item * item for item in items]
    made = (root / "log").read_text().split()
    assert made.count("13") == 2
    assert all(made.count(str(item)) == 1 for item in items if item != 13), made


async def test_an_item_that_asks_lets_the_others_go_on(root: Path) -> None:
    async with working(root) as app:
        run = await app.submit("asking")
        await until_it_is(app, run.id, "paused")
        async with asyncio.timeout(60):
            while not (asked := [pause for pause in await app.pauses() if pause.kind == "input"]):
                await asyncio.sleep(0.05)
            while list((await app.store.parts(ids_of(run.id))).values()).count("done") < 2:
                await asyncio.sleep(0.05)
        await app.resume(asked[0].token, 40)
        await until_it_is(app, run.id, "done")
        assert (await app.runner.outcome(run)).structured == {"seen": [1, 42, 3]}


async def test_cancelling_the_run_cancels_its_parts_and_whoever_is_left_does_nothing(root: Path) -> None:
    async with working(root, works=False) as app:
        run = await app.submit("keeping", {"items": [1, 2, 3, 4, 5]})
        # As a worker does: it submits the parts and pauses.
        await app.runner.submissions.execute(run.id, 1)
        assert (await until_it_is(app, run.id, "paused")).queue == "default"
        assert list((await app.store.parts(ids_of(run.id))).values()) == ["queued", "queued"]
        assert [pause.kind for pause in await app.pauses(run=run.id)] == ["wait"]
        assert (await app.store.queued("default"), await app.store.queued("default", parts=False)) == (2, 0)
        left, *_ = await app.store.parts(ids_of(run.id))
        await app.runner.submissions._executions.give_up(run.id, "died")  # pyright: ignore[reportPrivateUsage]
        await app.runner.submissions.execute(left, 1)
        assert await app.store.parts(ids_of(run.id)) == {left: "cancelled", left[:-1] + "1": "queued"}
        await app.runner.cancel(run, "not needed")
        assert set((await app.store.parts(ids_of(run.id))).values()) == {"cancelled"}
    assert not (root / "log").exists()


async def test_a_run_whose_last_part_ended_unseen_goes_on(root: Path) -> None:
    async with working(root, works=False) as app:
        submissions = app.runner.submissions
        run = await app.submit("keeping", {"items": [1, 2]})
        await submissions.execute(run.id, 1)
        await submissions.recover()
        assert (await until_it_is(app, run.id, "paused")).turn == 1
        (part,) = await app.store.parts(ids_of(run.id))
        # Its worker dies between the end of the part and what follows from it.
        assert await app.store.take_turn(part, 1, app.runner.owner, 10.0, 0.0)
        journal = await app.runner._executions.load(part)  # pyright: ignore[reportPrivateUsage]
        await submissions._execute(journal)  # pyright: ignore[reportPrivateUsage]
        assert (await until_it_is(app, run.id, "paused")).turn == 1
        await submissions.recover()
        assert (await until_it_is(app, run.id, "queued")).turn == 2
        await submissions.execute(run.id, 2)
        assert (await app.runner.outcome(await until_it_is(app, run.id, "done"))).structured["seen"] == [1, 4]


async def test_a_run_in_this_process_does_the_batch_itself(root: Path) -> None:
    async with working(root, works=False) as app:
        outcome = await app.run_flow("keeping", {"items": [1, 2, 3, 4]})
        assert not isinstance(outcome, Paused)
        assert await app.store.parts(ids_of(outcome.run_id)) == {}


@pytest.mark.parametrize(
    ("items", "wanted", "size"),
    [(0, True, 1), (10, True, 1), (1000, True, 20), (100_000, True, 200), (10**6, True, 1000), (10, 3, 3)],
)
def test_parts_are_many_enough_and_not_too_many(items: int, wanted: bool | int, size: int) -> None:
    assert size_of_parts(items, wanted) == size
    assert items / size_of_parts(items, 1) <= MOST_PARTS


async def test_what_cannot_be_spread_is_said(root: Path) -> None:
    text = "nodes:\n- {id: t, transform: {a: '${item}'}, batch: {over: [1], spread: true}}\n"
    (root / "flows" / "wrong.yaml").write_text(text)
    async with working(root, works=False) as app:
        with pytest.raises(FlowError, match=r"batch\.spread is for tools, models and agents"):
            await app.submit("wrong")
    (root / "flows" / "wrong.yaml").unlink()


async def test_one_item_is_traced_in_the_part_that_did_it(root: Path) -> None:
    async with working(root) as app:
        id, _ = await submitted(app, "keeping", items=[5, 6, 7, 13, 8])
        _, _, nodes = await app.flows.trace(id)
        (each,) = [node for node in nodes if node.node == "each"]
        done = await traced_item(app.store, app.agents.sealer, each, 2)
        failed = await traced_item(app.store, app.agents.sealer, each, 3)
        beyond = await traced_item(app.store, app.agents.sealer, each, 5)
    assert done is not None
    assert (done.node, done.inputs["item"], done.output, done.error) == ("each[2]", 7, 49, None)
    assert failed is not None
    assert failed.error is not None
    assert (failed.inputs["item"], "unlucky" in failed.error["message"]) == (13, True)
    assert beyond is None


async def test_the_run_of_a_long_batch_does_not_hold_what_its_items_are_given(root: Path) -> None:
    """The arguments of all items alone would be more than twice as much."""
    count = 20_000
    async with working(root, works=False) as app:
        run = await app.submit("long", {"items": list(range(count))})
        tracemalloc.start()
        try:
            await app.runner.submissions.execute(run.id, 1)
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert (await until_it_is(app, run.id, "paused")).id == run.id
        assert len(await app.store.parts(ids_of(run.id))) == 100
        await app.runner.cancel(run, "not needed")
    assert most / count < 350, f"{most / count:.0f} bytes for each item"


def test_of_the_ends_of_items_only_results_and_failures_are_held() -> None:
    batch = Batch("${items}", spread=2, keep_errors=True)
    items = BatchItems("each", batch, [{"n": number} for number in range(4)])
    wrote = {"each.content": [{"type": "image"}]}
    failure = NodeFailure(FlowError("no"), "error")
    items.take(iter([NodeDone(1), MISSING]))
    items.take(iter([NodeDone(3, wrote=wrote), failure]))
    done = items.gathered()
    assert isinstance(done, NodeDone)
    assert (done.value, done.wrote) == (
        [1, None, 3, None],
        {"each.content": [[], [], wrote["each.content"], []]},
    )
    assert done.failed is not None
    assert [(item["index"], item["arguments"]) for item in done.failed] == [(3, {"n": 3})]
    assert items.outcomes == []
    told = items.told()
    assert (told["total"], told["failed"], told["not_begun"]) == (4, 1, 1)
