"""Runs of a flow of three steps: in the process that starts them, submitted to workers on DBOS and Temporal,
and beside them DBOS and Temporal alone with the same three calls as steps, and Prefect with them as tasks.
CPU is that of submitting and executing one, in all threads, without the start of a process; where there is a
server its own is a row of its own. Rounds are interleaved, every second one in the opposite order.

The steps are known to be idempotent, so one that was in flight may be made again, which the others always do.
Prefect would start a process for each run that it is given; here its runs execute in the process that starts
them, which is its quickest way. They are fewer, as they take long.
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
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from table import Row

HERE = Path(__file__).parent
WORKER = HERE / "engine_worker.py"
PREFECT = Path(sys.prefix) / "prefect" / "bin"
"""Where its own environment is, if it is installed."""
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
    server: str = ""
    """The server that is needed: "postgres", "temporal" or "prefect"."""
    workers: int = 1
    """0: the process that starts the runs executes them."""
    beside: str = ""
    """Whom it is compared with."""
    fewer: int = 1
    """It executes this part of the runs."""
    submit_cpu: list[float] = field(default_factory=list[float])
    work_cpu: list[float] = field(default_factory=list[float])
    server_cpu: list[float] = field(default_factory=list[float])
    rates: list[float] = field(default_factory=list[float])

    @property
    def cpu(self) -> list[float]:
        return [one + other for one, other in zip(self.submit_cpu, self.work_cpu, strict=True)]


def contenders() -> list[Contender]:
    found = [
        Contender("local, SQLite", "spindle", workers=0, beside="DBOS alone, SQLite"),
        Contender("DBOS alone, SQLite", "dbos", beside="DBOS alone, SQLite"),
        Contender("DBOS, SQLite", "spindle", beside="DBOS alone, SQLite"),
    ]
    for workers in (1, 2, 4):
        several = f"{workers} worker{'s' if workers > 1 else ''}"
        alone = f"DBOS alone, PostgreSQL, {several}"
        found += [
            Contender(alone, "dbos", "postgres", workers, alone),
            Contender(f"DBOS, PostgreSQL, {several}", "spindle", "postgres", workers, alone),
        ]
    found += [
        Contender("Temporal alone", "temporal", "temporal", beside="Temporal alone"),
        Contender("Temporal, SQLite", "spindle", "temporal", beside="Temporal alone"),
    ]
    if PREFECT.exists():
        found.append(Contender("Prefect", "prefect", "prefect", 0, "local, SQLite", fewer=4))
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

    def __init__(self, command: list[str], environment: dict[str, str], said: queue.Queue[Worker]) -> None:
        self.ends: list[tuple[float, float]] = []
        """When each run ended, and the CPU that was used by then."""
        self._said = said
        self._notes = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long as the process
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._notes, text=True,
            env=environment,
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


def round_of(contender: Contender, runs: int, servers: Servers) -> None:
    runs //= contender.fewer
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        workspace(folder)
        environment = ENVIRONMENT | {"SPINDLE_HOME": str(folder / "home")}
        server = servers.get(contender.server)
        place = str(folder) if contender.engine == "spindle" else str(folder / "dbos.db")
        if contender.server == "postgres":
            database = f"bench_{uuid.uuid4().hex}"
            server.execute(f"CREATE DATABASE {database}")
            environment["SPINDLE_STORE"] = server.url(database)
            place = place if contender.engine == "spindle" else server.url(database)
        elif contender.engine == "temporal":
            place = f"{server.address}/{uuid.uuid4().hex}"
        elif contender.server == "temporal":
            with (folder / "spindle.toml").open("a") as settings:
                settings.write(server.settings())
        elif contender.server == "prefect":
            environment |= server.environment
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
        command = [sys.executable, str(WORKER), "work" if contender.workers else "local", *words]
        if contender.engine == "prefect":
            command = [str(PREFECT / "python"), str(HERE / "engine_prefect.py"), str(runs)]
        _execute(contender, command, environment, runs, server)


def _execute(
    contender: Contender, command: list[str], environment: dict[str, str], runs: int, server: Any
) -> None:
    said: queue.Queue[Worker] = queue.Queue()
    served = _cpu_of_server(server)
    workers = [Worker(command, environment, said) for _ in range(contender.workers or 1)]
    try:
        until = time.monotonic() + PATIENCE
        for _ in range(runs):
            try:
                said.get(timeout=max(until - time.monotonic(), 0.1))
            except queue.Empty:
                ended = sum(len(worker.ends) for worker in workers)
                notes = "".join(worker.notes for worker in workers)
                raise SystemExit(f"{contender.name}: only {ended} of {runs} runs ended\n{notes}") from None
        contender.server_cpu.append((_cpu_of_server(server) - served) / runs)
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


def _cpu_of_server(server: Any) -> float:
    """Seconds of CPU of a server, also of its processes that have ended."""
    total = 0.0
    if server is None:
        return total
    main = psutil.Process(server.pid)
    for process in (main, *main.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            used = process.cpu_times()
            total += used.user + used.system + used.children_user + used.children_system
    return total


class Servers(contextlib.ExitStack):
    """The servers that contenders need, each started at its first use."""

    def __init__(self) -> None:
        super().__init__()
        sys.path.append(str(HERE.parent / "tests"))
        self._running: dict[str, Any] = {"": None}

    def get(self, name: str) -> Any:
        if name not in self._running:
            from servers import postgres, temporal

            known = {
                "postgres": lambda: postgres.running_server(shared_buffers="128MB", max_connections=200),
                "temporal": temporal.running_server,
                "prefect": running_prefect,
            }
            self._running[name] = self.enter_context(known[name]())
        return self._running[name]


@dataclass
class PrefectServer:
    pid: int
    environment: dict[str, str]


@contextlib.contextmanager
def running_prefect() -> Iterator[PrefectServer]:
    """Prefect's server, with its own SQLite file."""
    from servers.postgres import free_port

    with tempfile.TemporaryDirectory() as home:
        port = free_port()
        environment = {
            "PREFECT_HOME": home,
            "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
            # Its SQLite has one writer: who meets another is told to come again.
            "PREFECT_CLIENT_RETRY_EXTRA_CODES": "503",
            "PREFECT_CLIENT_MAX_RETRIES": "20",
            "PREFECT_LOGGING_LEVEL": "ERROR",
            "PREFECT_LOGGING_TO_API_ENABLED": "false",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "DO_NOT_TRACK": "1",
        }
        process = subprocess.Popen(
            [str(PREFECT / "prefect"), "server", "start", "--port", str(port), "--no-ui"],
            env=ENVIRONMENT | environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            until = time.monotonic() + PATIENCE
            while time.monotonic() < until and process.poll() is None:
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/api/health", timeout=5)
                    break
                time.sleep(0.2)
            yield PrefectServer(process.pid, environment)
        finally:
            process.terminate()
            process.wait(60)


def engine(quick: bool) -> list[Row]:
    rounds, runs = (1, 200) if quick else (5, 600)
    measured = contenders()
    with Servers() as servers:
        for number in range(rounds):
            for contender in measured if number % 2 == 0 else measured[::-1]:
                round_of(contender, runs, servers)
    return [row for contender in measured for row in _rows(contender, measured)]


def _rows(contender: Contender, measured: list[Contender]) -> list[Row]:
    peer = next(other for other in measured if other.name == contender.beside)

    def compared(mine: list[float], theirs: list[float]) -> float:
        # Rounds that were run next to each other are compared: the machine's speed drifts.
        return statistics.median(one / other for one, other in zip(mine, theirs, strict=True))

    def row(what: str, found: list[float], ratio: float | None = None, goal: float | None = None) -> Row:
        return Row("engine", f"{what}: {contender.name}", statistics.median(found) * 1e3, "ms", ratio, goal)

    ours = contender.engine == "spindle" and peer.engine == "dbos" and contender.workers > 0
    rows = [row("CPU a run", contender.cpu, compared(contender.cpu, peer.cpu), GOAL if ours else None)]
    if contender.workers:
        rows.append(row("  of it to submit", contender.submit_cpu))
    if contender.server:
        ratio = compared(contender.server_cpu, peer.server_cpu) if peer.server == contender.server else None
        where = {"postgres": "PostgreSQL"}.get(contender.server, f"the server of {contender.server.title()}")
        rows.append(row(f"  beside it in {where}", contender.server_cpu, ratio))
    rate = compared(contender.rates, peer.rates)
    throughput = Row(
        "engine", f"runs a second: {contender.name}", statistics.median(contender.rates), "/s", rate
    )
    return [*rows, throughput]
