"""Runs of a flow of three steps: in the process that starts them, submitted to workers, and beside them DBOS
alone with the same three calls as steps. CPU is that of submitting and executing one, in all threads, without
the start of a process; where the database is a server its own is a row of its own. Rounds are interleaved.

The steps are known to be idempotent, so one that was in flight may be made again, which DBOS always does.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from table import Row

HERE = Path(__file__).parent
WORKER = HERE / "engine_worker.py"
WARM = 20
"""Runs of each worker that are not counted."""
PATIENCE = 300.0
GOAL = 1.3
TOOLS = '''
from spindle import tool

@tool(idempotent=True)
async def same(text: str) -> str:
    """Says the same."""
    return text
'''
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"} | {
    "SPINDLE_TRUST": "1"
}


@dataclass
class Contender:
    """One way to execute runs."""

    name: str
    engine: str
    database: str
    workers: int = 1
    """0: the process that starts the runs executes them."""
    beside: str = ""
    """Whom it is compared with."""
    submit_cpu: list[float] = field(default_factory=list[float])
    work_cpu: list[float] = field(default_factory=list[float])
    server_cpu: list[float] = field(default_factory=list[float])
    rates: list[float] = field(default_factory=list[float])

    @property
    def cpu(self) -> list[float]:
        return [one + other for one, other in zip(self.submit_cpu, self.work_cpu, strict=True)]


def contenders() -> list[Contender]:
    found = [
        Contender("local, SQLite", "spindle", "sqlite", workers=0, beside="DBOS alone, SQLite"),
        Contender("DBOS alone, SQLite", "dbos", "sqlite", beside="DBOS alone, SQLite"),
        Contender("DBOS, SQLite", "spindle", "sqlite", beside="DBOS alone, SQLite"),
    ]
    for workers in (1, 2, 4):
        several = f"{workers} worker{'s' if workers > 1 else ''}"
        alone = f"DBOS alone, PostgreSQL, {several}"
        found += [
            Contender(alone, "dbos", "postgres", workers, alone),
            Contender(f"DBOS, PostgreSQL, {several}", "spindle", "postgres", workers, alone),
        ]
    return found


def workspace(folder: Path) -> None:
    for name in ("tools", "flows"):
        (folder / name).mkdir()
    (folder / "tools" / "steps.py").write_text(TOOLS)
    nodes = [{"id": f"n{step}", "tool": "same", "params": {"text": "${text}"}} for step in range(3)]
    edges = [{"from": f"n{step}", "to": f"n{step + 1}"} for step in range(2)]
    flow = {"inputs": {"text": {"type": "string"}}, "nodes": nodes, "edges": edges}
    (folder / "flows" / "three.json").write_text(json.dumps(flow))
    (folder / "spindle.toml").write_text("[engine.queues.default]\nconcurrency = 20\n")


class Worker:
    """A process that executes runs, and tells of each that has ended."""

    def __init__(self, words: list[str], environment: dict[str, str], said: queue.Queue[Worker]) -> None:
        self.ends: list[tuple[float, float]] = []
        """When each run ended, and the CPU that was used by then."""
        self._said = said
        self._notes = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long as the process
        self._process = subprocess.Popen(
            [sys.executable, str(WORKER), *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._notes, text=True, env=environment,
        )  # fmt: skip
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            at, cpu = (float(word) for word in line.split())
            self.ends.append((at, cpu))
            self._said.put(self)

    @property
    def notes(self) -> str:
        self._notes.seek(0)
        return self._notes.read()[-3000:]

    def stop(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(60)
        self._reading.join()


def round_of(contender: Contender, runs: int, postgres: Any) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        workspace(folder)
        environment = ENVIRONMENT | {"SPINDLE_HOME": str(folder / "home")}
        place = str(folder) if contender.engine == "spindle" else str(folder / "dbos.db")
        if contender.database == "postgres":
            database = f"bench_{uuid.uuid4().hex}"
            postgres.execute(f"CREATE DATABASE {database}")
            environment["SPINDLE_STORE"] = postgres.url(database)
            place = place if contender.engine == "spindle" else postgres.url(database)
        words = [contender.engine, place, str(runs)]
        if contender.workers:
            done = subprocess.run(
                [sys.executable, str(WORKER), "submit", *words],
                env=environment, capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode:
                raise SystemExit(f"{contender.name}: submitting failed:\n{done.stderr[-3000:]}")
            contender.submit_cpu.append(float(done.stdout))
        else:
            contender.submit_cpu.append(0.0)
        role = "work" if contender.workers else "local"
        _execute(contender, [role, *words], environment, runs, postgres)


def _execute(
    contender: Contender, words: list[str], environment: dict[str, str], runs: int, postgres: Any
) -> None:
    said: queue.Queue[Worker] = queue.Queue()
    served = _cpu_of_server(postgres)
    workers = [Worker(words, environment, said) for _ in range(contender.workers or 1)]
    try:
        until = time.monotonic() + PATIENCE
        for _ in range(runs):
            try:
                said.get(timeout=max(until - time.monotonic(), 0.1))
            except queue.Empty:
                ended = sum(len(worker.ends) for worker in workers)
                notes = "".join(worker.notes for worker in workers)
                raise SystemExit(f"{contender.name}: only {ended} of {runs} runs ended\n{notes}") from None
        contender.server_cpu.append((_cpu_of_server(postgres) - served) / runs)
    finally:
        for worker in workers:
            worker.stop()
    warm = [worker for worker in workers if len(worker.ends) > WARM]
    counted = sum(len(worker.ends) - WARM for worker in warm)
    cpu = sum(worker.ends[-1][1] - worker.ends[WARM - 1][1] for worker in warm)
    contender.work_cpu.append(cpu / counted)
    # From the moment on at which all are warm.
    began = max(worker.ends[WARM - 1][0] for worker in warm)
    times = [at for worker in workers for at, _ in worker.ends if at > began]
    contender.rates.append(len(times) / (max(times) - began))


def _cpu_of_server(postgres: Any) -> float:
    """Seconds of CPU of PostgreSQL, also of the processes that have ended."""
    main = psutil.Process(postgres.pid)
    total = 0.0
    for process in (main, *main.children()):
        with contextlib.suppress(psutil.NoSuchProcess):
            used = process.cpu_times()
            total += used.user + used.system + used.children_user + used.children_system
    return total


@contextlib.contextmanager
def running_postgres() -> Iterator[Any]:
    sys.path.append(str(HERE.parent / "tests"))
    from servers.postgres import running_server

    with running_server(shared_buffers="128MB", max_connections=200) as server:
        yield server


def engine(quick: bool) -> list[Row]:
    rounds, runs = (1, 200) if quick else (5, 600)
    measured = contenders()
    with running_postgres() as postgres:
        for _ in range(rounds):
            for contender in measured:
                round_of(contender, runs, postgres)
    return [row for contender in measured for row in _rows(contender, measured)]


def _rows(contender: Contender, measured: list[Contender]) -> list[Row]:
    peer = next(other for other in measured if other.name == contender.beside)

    def compared(mine: list[float], theirs: list[float]) -> float:
        # Rounds that were run next to each other are compared: the machine's speed drifts.
        return statistics.median(one / other for one, other in zip(mine, theirs, strict=True))

    def row(what: str, found: list[float], ratio: float | None = None, goal: float | None = None) -> Row:
        return Row("engine", f"{what}: {contender.name}", statistics.median(found) * 1e3, "ms", ratio, goal)

    ours = contender.engine == "spindle" and contender.workers > 0
    rows = [row("CPU a run", contender.cpu, compared(contender.cpu, peer.cpu), GOAL if ours else None)]
    if contender.workers:
        rows.append(row("  of it to submit", contender.submit_cpu))
    if contender.database == "postgres":
        ratio = compared(contender.server_cpu, peer.server_cpu)
        rows.append(row("  beside it in PostgreSQL", contender.server_cpu, ratio))
    rate = compared(contender.rates, peer.rates)
    throughput = Row(
        "engine", f"runs a second: {contender.name}", statistics.median(contender.rates), "/s", rate
    )
    return [*rows, throughput]
