"""Flows beside pocketflow and pflow: `flows.py CONTENDER` is one contender's worker, fed with lines.

A line is `NODES RUNS`: a chain of that many nodes, run that many times; the answer is seconds of CPU.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from table import Row

HERE = Path(__file__).parent
SERVER = HERE / "servers" / "echo.py"
PFLOW = HERE.parent / ".venv-bench" / "pflow" / "bin" / "pflow"
TIMES = 7
CONTENDERS = ("pocketflow", "spindle", "pocketflow async", "spindle async")


# --- a worker


def chain(module: Any, length: int, *, is_async: bool) -> Any:
    if is_async:

        class Step(module.AsyncNode):
            async def prep_async(self, shared: Any) -> Any:
                return shared["n"]

            async def exec_async(self, prep_res: Any) -> Any:
                return prep_res + 1

            async def post_async(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
                shared["n"] = exec_res

    else:

        class Step(module.Node):
            def prep(self, shared: Any) -> Any:
                return shared["n"]

            def exec(self, prep_res: Any) -> Any:
                return prep_res + 1

            def post(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
                shared["n"] = exec_res

    nodes = [Step() for _ in range(length)]
    for one, other in itertools.pairwise(nodes):
        one >> other
    return (module.AsyncFlow if is_async else module.Flow)(start=nodes[0])


def runs_of(contender: str, length: int) -> Callable[[int], None]:
    library, _, how = contender.partition(" ")
    if library == "pocketflow":
        import pocketflow as module
    else:
        import spindle.compat.pocketflow as module
    flow = chain(module, length, is_async=bool(how))

    def several(times: int) -> None:
        async def awaited() -> None:
            for _ in range(times):
                shared = {"n": 0}
                await flow.run_async(shared)
                assert shared["n"] == length

        if how:
            asyncio.run(awaited())
            return
        for _ in range(times):
            shared = {"n": 0}
            flow.run(shared)
            assert shared["n"] == length

    return several


def serve(contender: str) -> None:
    known: dict[int, Callable[[int], None]] = {}
    for line in sys.stdin:
        nodes, times = (int(word) for word in line.split())
        several = known.setdefault(nodes, runs_of(contender, nodes))
        began = time.process_time()
        several(times)
        print(time.process_time() - began, flush=True)


class Worker:
    def __init__(self, contender: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, contender], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def round(self, nodes: int, times: int) -> float:
        assert self._process.stdin
        assert self._process.stdout
        print(nodes, times, file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


# --- recorded runs, in a workspace


async def _recorded(nodes: int, at_once: int) -> tuple[float, float]:
    """CPU a node of a chain of tool nodes that was never run before, and of that many runs of one node at the
    same time: the least of several times, as others on the machine only add to it."""
    import spindle
    from spindle.flows import Flow, ToolNode

    @spindle.tool
    async def same(text: str) -> str:
        return text

    def chained(name: int) -> Flow:
        steps = [ToolNode("same", id=f"n{name}_{number}", params={"text": "x"}) for number in range(nodes)]
        for one, other in itertools.pairwise(steps):
            one >> other
        return Flow(steps[0])

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "spindle.toml").touch()
        async with spindle.open(folder, tools=[same]) as app:
            await app.run_flow(Flow(ToolNode("same", params={"text": "x"})))
            each: list[float] = []
            together: list[float] = []
            single = Flow(ToolNode("same", params={"text": "x"}))
            for name in range(TIMES):
                flow, began = chained(name), time.process_time()
                await app.run_flow(flow)
                each.append((time.process_time() - began) / nodes)
                began = time.process_time()
                await asyncio.gather(*(app.run_flow(single) for _ in range(at_once)))
                together.append((time.process_time() - began) / at_once)
            return min(each), min(together)


async def _joined_and_batched(branches: int, items: int) -> tuple[float, float]:
    """CPU a branch of a recorded join, and an item of a recorded batch over an inline flow of two nodes."""
    import spindle
    from spindle.flows import Batch, Flow, Join, ToolNode, inline

    @spindle.tool
    async def same(text: str) -> str:
        return text

    def forked(number: int) -> Flow:
        start = ToolNode("same", id="start", params={"text": "x"})
        arms = tuple(ToolNode("same", id=f"b{arm}", params={"text": f"{arm}"}) for arm in range(number))
        end = ToolNode("same", id="end", params={"text": "${len(end.branches)} arrived"}, join=Join())
        start >> arms >> end
        return Flow(start)

    first = ToolNode("same", id="first", params={"text": "${item}"})
    first >> ToolNode("same", id="second", params={"text": "${first}"})
    each = Flow(inline(Flow(first), id="each", batch=Batch("${texts}")))
    texts = [f"t{number}" for number in range(items)]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "spindle.toml").touch()
        async with spindle.open(folder, tools=[same]) as app:
            await app.run_flow(forked(2))
            await app.run_flow(each, texts=texts[:2])
            flow = forked(branches)
            began = time.process_time()
            outcome = await app.run_flow(flow)
            branch = (time.process_time() - began) / branches
            assert outcome.result.value == f"{branches} arrived"
            began = time.process_time()
            outcome = await app.run_flow(each, texts=texts)
            item = (time.process_time() - began) / items
            assert outcome.result.value == texts
            return branch, item


# --- one pipe in the shell


def _shell(quick: bool) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-I", "-S", str(SERVER)]
        Path(folder, "spindle.toml").write_text(f"[sources.echo]\ncommand = {json.dumps(command)}\n")
        Path(folder, "echo.pflow.md").write_text(
            "# Echo\n\nSays it again.\n\n"
            "## Steps\n\n### echo\n\nSays it.\n\n- type: mcp-echo-echo\n- text: hello\n\n"
            "## Outputs\n\n### result\n\nWhat was said.\n\n- source: ${echo.result}\n"
        )
        environment = {**os.environ, "HOME": folder, "XDG_CONFIG_HOME": folder, "XDG_DATA_HOME": folder}
        environment["SPINDLE_TRUST"] = "1"
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        entry = json.dumps({"echo": {"command": command[0], "args": command[1:]}})
        spindle = str(Path(sys.executable).with_name("spindle"))
        for setup in (
            [str(PFLOW), "mcp", "add", entry],
            [str(PFLOW), "mcp", "sync", "--all"],
            [spindle, "sync"],
        ):
            subprocess.run(setup, cwd=folder, env=environment, check=True, capture_output=True)
        contenders = {
            "pflow, one MCP tool": [str(PFLOW), "-p", "--no-cache", "./echo.pflow.md"],
            "spindle run, the same": [spindle, "run", "--no-cache", "echo.echo --text=hello"],
        }
        walls: dict[str, list[float]] = {name: [] for name in contenders}
        cpus: dict[str, list[float]] = {name: [] for name in contenders}
        for number in range(3 if quick else 8):
            for name, words in contenders.items():
                before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
                done = subprocess.run(
                    words, cwd=folder, env=environment, capture_output=True, text=True, check=False
                )
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                if "hello" not in done.stdout:
                    raise SystemExit(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")
                if number:  # the first fills caches
                    walls[name].append(time.perf_counter() - began)
                    cpus[name].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    theirs = next(iter(contenders))
    return [
        Row("flows", f"{what}: {name}", min(found[name]), "s", min(found[name]) / min(found[theirs]), None)
        for what, found in (("wall", walls), ("CPU", cpus))
        for name in contenders
    ]


def _with_conditions(nodes: int, runs: int) -> float:
    """Returns the seconds of CPU for a node whose edges have conditions."""
    from spindle.flows import Flow, Node

    class Step(Node):
        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
            shared["n"] += 1

    chain = [Step(id=f"n{number}") for number in range(nodes)]
    for one, other in itertools.pairwise(chain):
        one.when("n < 0 or n > 1000000") >> chain[0]
        one.when("else") >> other
    flow = Flow(chain[0])
    flow.run({"n": 0})
    began = time.process_time()
    for _ in range(runs):
        shared = {"n": 0}
        flow.run(shared)
        assert shared["n"] == nodes
    return (time.process_time() - began) / (nodes * runs)


def flows(quick: bool) -> list[Row]:
    workers = {name: Worker(name) for name in CONTENDERS}
    rounds = 3 if quick else 15
    short: dict[str, list[float]] = {name: [] for name in workers}
    long: dict[str, list[float]] = {name: [] for name in workers}
    for number in range(rounds + 1):
        for name, worker in workers.items():
            one, other = worker.round(10, 300) / 3000, worker.round(10_000, 1)
            if number:
                short[name].append(one)
                long[name].append(other)
    for worker in workers.values():
        worker.close()
    rows: list[Row] = []
    for what, found, unit, factor in (
        ("CPU a node, flows of ten", short, "µs", 1e6),
        ("CPU, a chain of 10,000 nodes", long, "ms", 1e3),
    ):
        for name in CONTENDERS:
            peer = "pocketflow async" if name.endswith("async") else "pocketflow"
            ratio = statistics.median(
                mine / theirs for mine, theirs in zip(found[name], found[peer], strict=True)
            )
            value = statistics.median(found[name]) * factor
            rows.append(Row("flows", f"{what}: {name}", value, unit, ratio, None))
    node, run = asyncio.run(_recorded(200 if quick else 1000, 200 if quick else 1000))
    rows.append(Row("flows", "CPU a tool node, guarded and recorded", node * 1e6, "µs"))
    rows.append(Row("flows", "CPU a run, 1,000 recorded runs at once", run * 1e6, "µs"))
    rows.append(Row("flows", "CPU a node with `when`", _with_conditions(10, 300) * 1e6, "µs"))
    items = 1_000 if quick else 10_000
    branch, item = asyncio.run(_joined_and_batched(100, items))
    rows.append(Row("flows", "CPU a branch, a join of 100, recorded", branch * 1e6, "µs"))
    rows.append(Row("flows", f"CPU an item, a batch of {items:,} over two nodes, recorded", item * 1e6, "µs"))
    return [*rows, *_shell(quick)]


if __name__ == "__main__":
    serve(sys.argv[1])
