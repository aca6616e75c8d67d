"""Processes that are stopped, killed, and whose clocks jump, while they work on the same runs.

What must hold, whatever the faults: each run ends once, with one outcome of each step. A step that may be
repeated is done again only if a fault hit its process while it was in flight. Any other is never done again
by itself: with a person who looks at the server before answering, each is done exactly once. `STALLS_SEED`
repeats the choice of the faults.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import spindle
from servers import warm
from servers.running import PATIENCE, until
from spindle import Continuing, Finished, OpenPause, Paused, Spindle

HERE = Path(__file__).parent
STEPS = 10
PROCESSES = 3


@dataclass
class Process:
    process: asyncio.subprocess.Process
    pid: int
    owner: str


@dataclass
class Stalls:
    """Three processes, the runs that they work on, and what was done to them."""

    app: Spindle
    root: Path
    lease: float
    random: random.Random
    names: dict[str, str] = field(default_factory=dict[str, str])
    """By id of a run, the name under which the server knows it."""
    processes: list[Process] = field(default_factory=list[Process])
    hits: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])
    """By run and step, the faults that hit its process while it was in flight."""
    stops: Counter[str] = field(default_factory=Counter[str])
    faults: Counter[str] = field(default_factory=Counter[str])

    async def start(self) -> None:
        made = await asyncio.create_subprocess_exec(
            warm.PYTHON, str(HERE / "stall_process.py"), str(self.root), str(self.lease),
            str(self.root / "said"), stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert made.stdout is not None
        owner = (await asyncio.wait_for(made.stdout.readline(), PATIENCE)).decode().strip()
        assert owner
        self.processes.append(Process(made, warm.pid_of(made.pid), owner))

    async def create(self, count: int) -> None:
        """Runs that wait for somebody to let them go on."""
        for number in range(len(self.names), len(self.names) + count):
            outcome = await self.app.run_flow("ten", run=f"r{number}")
            assert isinstance(outcome, Paused)
            self.names[outcome.run_id] = f"r{number}"

    # --- faults

    async def held_by(self, process: Process) -> list[str]:
        running = await self.app.store.runs(limit=-1, status="running")
        return [run.id for run in running if run.owner == process.owner]

    async def stop(self, process: Process) -> list[str]:
        """Stops a process, and notes the steps that were in flight."""
        os.kill(process.pid, signal.SIGSTOP)
        await until(lambda: state_of(process.pid) == "T")
        held = await self.held_by(process)
        for run in held:
            self.hits[run, len(await self.recorded(run)) + 1] += 1
        return held

    async def stall(self, process: Process, seconds: float | None = None) -> None:
        """A stop for so long, or until others have taken over all that it held."""
        self.faults["stops"] += 1
        held = await self.stop(process)
        self.stops.update(held)
        if seconds is not None:
            await asyncio.sleep(seconds)
        else:
            # Nobody can, if it was stopped in the middle of a write to a file.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(10 * self.lease):
                    while await self.held_by(process):
                        await asyncio.sleep(0.02)
        os.kill(process.pid, signal.SIGCONT)

    async def kill(self, process: Process) -> None:
        self.faults["kills"] += 1
        await self.stop(process)
        os.kill(process.pid, signal.SIGKILL)
        await process.process.wait()
        self.processes.remove(process)
        await self.start()

    def jump(self, process: Process) -> None:
        """The time of day of a process jumps by a minute, which may repeat nothing."""
        self.faults["jumps"] += 1
        os.kill(process.pid, self.random.choice([signal.SIGUSR1, signal.SIGUSR2]))

    async def busiest(self) -> Process:
        """The process that holds most runs, once there is one; never one that is stopped."""
        while True:
            held = [(len(await self.held_by(process)), process) for process in self.processes]
            count, process = max(held, key=lambda item: item[0])
            if count:
                return process
            if await self.are_at_rest():
                await self.create(2)
            await asyncio.sleep(0.02)

    async def are_at_rest(self) -> bool:
        """True if all runs are done, or wait for a person to decide: no process will hold any."""
        if await self.app.store.runs(limit=1, status="running"):
            return False
        return all(pause.kind != "input" for pause in await self.app.pauses())

    # --- a person

    async def decide(self) -> int:
        """Looks at the server for each step in doubt: what it has done is confirmed, the rest is done. The
        workers leave such questions alone."""
        asked = [pause for pause in await self.app.pauses() if "in_doubt" in pause.details]
        done = {(step["run"], step["n"]): step["token"] for step in reversed(self.done_steps())}

        async def answer(pause: OpenPause) -> None:
            wanted = pause.details["arguments"]
            token = done.get((wanted["run"], wanted["n"]))
            confirmed = {"done": True, "result": {"n": wanted["n"], "token": token}}
            outcome = await self.app.resume(pause.token, confirmed if token else True)
            # A worker that took it for dead may have resumed it just before: then it finds the answer.
            assert isinstance(outcome, (Finished, Continuing))

        await asyncio.gather(*map(answer, asked))
        return len(asked)

    # --- what came of it

    async def recorded(self, run: str) -> list[str]:
        events = await self.app.store.history(run)
        return [event.path for event in events if event.kind == "step" and "/count.step:" in event.path]

    async def are_done(self) -> bool:
        return {run.status for run in await self.app.store.runs(limit=-1)} <= {"done", "failed"}

    def done_steps(self) -> list[dict[str, Any]]:
        return lines_of(self.root / "steps")

    async def check(self, pauses: int = 0) -> dict[str, Any]:
        """`pauses`: how often a person answered, besides once for each run."""
        said = lines_of(self.root / "said")
        by_token = {step["token"]: step for step in self.done_steps()}
        executions = Counter((step["run"], step["n"]) for step in by_token.values())
        lost = Counter(line["lost"] for line in said if "lost" in line)
        runs = await self.app.store.runs(limit=-1)
        assert {run.id: run.status for run in runs} == dict.fromkeys(self.names, "done")
        repeated = unforeseen = answered = 0
        for run, name in self.names.items():
            ended = await self.app.resume(run)
            assert isinstance(ended, Finished)
            # One outcome of each step, each made with that of the step before.
            tokens = [ended.result.structured[f"s{n}"] for n in range(1, STEPS + 1)]
            for n, (before, token) in enumerate(zip([None, *tokens], tokens, strict=False), 1):
                assert (by_token[token]["run"], by_token[token]["n"]) == (name, n)
                assert by_token[token].get("before") == before
            assert len(await self.recorded(run)) == STEPS
            kinds = Counter(event.kind for event in await self.app.store.history(run))
            assert (kinds["started"], kinds["ended"]) == (1, 1)
            # Not the times that it paused: who resumes a run that has just paused has it pause once more.
            asked = await self.app.store.pauses(run=run, waiting=False)
            answered += sum(pause.state == "answered" for pause in asked)
            told = [line["value"] for line in said if line.get("finished") == run]
            assert all(value == ended.result.structured for value in told)
            # A process that the machine itself kept waiting for longer than a lease was hit by a fault too.
            natural = max(0, lost[run] - self.stops[run])
            unforeseen += natural
            for n in range(1, STEPS + 1):
                assert 1 <= executions[name, n] <= 1 + self.hits[run, n] + natural, (name, n)
                repeated += executions[name, n] - 1
        assert answered == len(self.names) + pauses
        return {"repeated": repeated, "unforeseen": unforeseen, "lost": sum(lost.values())}


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def document(port: int) -> dict[str, Any]:
    fields = {"run": {"type": "string"}, "n": {"type": "integer"}, "before": {"type": "string"}}
    body = {"type": "object", "properties": fields, "required": ["run", "n"]}
    operation = {
        "operationId": "step",
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": {"200": {"description": "done", "content": {"application/json": {"schema": {}}}}},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "count", "version": "1"},
        "servers": [{"url": f"http://127.0.0.1:{port}"}],
        "paths": {"/step": {"post": operation}},
    }


def ten_steps() -> dict[str, Any]:
    nodes: list[dict[str, Any]] = [{"id": "go", "ask": "Go?"}]
    for n in range(1, STEPS + 1):
        before = {"before": f"${{s{n - 1}.token}}"} if n > 1 else {}
        nodes.append({"id": f"s{n}", "tool": "count.step", "params": {"run": "${run}", "n": n, **before}})
    edges = [{"from": one["id"], "to": other["id"]} for one, other in itertools.pairwise(nodes)]
    return {
        "version": 1, "name": "ten", "inputs": {"run": {"type": "string"}}, "nodes": nodes, "edges": edges,
        "outputs": {f"s{n}": f"${{s{n}.token}}" for n in range(1, STEPS + 1)},
    }  # fmt: skip


@contextlib.asynccontextmanager
async def stalls(
    root: Path, store: str | None, lease: float, step: float, in_doubt: str = "repeat"
) -> AsyncIterator[Stalls]:
    seed = int(os.environ.get("STALLS_SEED", random.randrange(10**9)))
    print(f"STALLS_SEED={seed}")
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", str(HERE / "counting_http.py"), str(root / "steps"), str(step),
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert server.stdout is not None
    port = int(await server.stdout.readline())
    (root / "count.json").write_text(json.dumps(document(port)))
    (root / "flows").mkdir()
    (root / "flows" / "ten.json").write_text(json.dumps(ten_steps()))
    head = f"store = {json.dumps(store)}\n" if store else ""
    (root / "spindle.toml").write_text(
        f'{head}[sources.count]\nkind = "openapi"\ndocument = "count.json"\ntimeout = 600\n'
        f'in_doubt = "{in_doubt}"\n'
    )
    try:
        async with spindle.open(root) as app:
            await app.sync()
            made = Stalls(app, root, lease, random.Random(seed))
            try:
                yield made
            finally:
                for process in made.processes:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process.pid, signal.SIGKILL)
                await asyncio.gather(*(process.process.wait() for process in made.processes))
    finally:
        server.kill()
        await server.wait()


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> str | None:
    return None if request.param == "sqlite" else request.getfixturevalue("postgres_url")


async def test_a_stop_a_kill_and_jumps_of_the_clock_repeat_only_what_was_in_flight(
    tmp_path: Path, store: str | None
) -> None:
    async with asyncio.timeout(PATIENCE), stalls(tmp_path, store, lease=1.0, step=0.02) as it:
        for _ in range(PROCESSES):
            await it.start()
        await it.create(4)
        await it.stall(await it.busiest())
        for process in it.processes:
            it.jump(process)
        await it.create(4)
        await it.kill(await it.busiest())
        for process in it.processes:
            it.jump(process)
        while not await it.are_done():
            await asyncio.sleep(0.02)
        await it.check()


async def test_killed_processes_do_each_step_once_if_a_person_looks_before_deciding(
    tmp_path: Path, store: str | None
) -> None:
    async with asyncio.timeout(PATIENCE), stalls(tmp_path, store, lease=1.0, step=0.2, in_doubt="ask") as it:
        for _ in range(PROCESSES):
            await it.start()
        await it.create(8)
        for _ in range(3):
            await it.kill(await it.busiest())
        decided = 0
        while not await it.are_done():
            decided += await it.decide()
            await asyncio.sleep(0.02)
        came = await it.check(pauses=decided)
        assert came["repeated"] == 0
        assert decided <= it.hits.total() + came["unforeseen"]


@pytest.mark.soak
async def test_two_hundred_runs_survive_stops_kills_and_jumps_of_the_clock(
    tmp_path: Path, store: str | None, seconds: float, figures: Callable[[str], None]
) -> None:
    runs, at_once, lease = 200, 8, 3.0
    step = seconds * 0.3 / (runs * STEPS / (PROCESSES * at_once))
    async with stalls(tmp_path, store, lease=lease, step=step) as it:
        await it.create(runs)
        for _ in range(PROCESSES):
            await it.start()
        began = time.monotonic()
        stalled: set[asyncio.Task[None]] = set()
        while not await it.are_done():
            await asyncio.sleep(it.random.uniform(0.5, 2.0))
            if time.monotonic() - began > seconds * 0.7:
                continue  # what is left is done in peace, so that the length is bounded
            what = it.random.choice(["stop", "kill", "jump"])
            # One is always left that goes on.
            free = [process for process in it.processes if state_of(process.pid) != "T"]
            process = it.random.choice(free)
            if what == "jump" or len(free) == 1:
                it.jump(process)
            elif what == "stop":
                seconds_of_it = lease * it.random.uniform(35 / 30, 2.0)
                stalled.add(asyncio.create_task(it.stall(process, seconds_of_it)))
                await until(lambda pid=process.pid: state_of(pid) == "T")  # type: ignore[misc]
            else:
                await it.kill(process)
        await asyncio.gather(*stalled)
        took = time.monotonic() - began
        came = await it.check()
        done = ", ".join(f"{count} {kind}" for kind, count in sorted(it.faults.items()))
        figures(f"{runs} runs of {STEPS} steps in {took:.0f} s with {done}; {came['lost']} lost to others")
        figures(f"{came['repeated']} steps repeated, {came['unforeseen']} stalls of the machine itself")
