"""A call through a gateway over HTTP to a stdio server that costs nearly nothing: Spindle beside the least
that any could cost (`floor.py`), mcp-proxy, the FastMCP proxy and mcpo, with 1, 16 and 64 clients. Rounds are
interleaved, every answer is checked."""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from http_client import Connection, mcp_call, rest_call
from table import Row

HERE = Path(__file__).parent
ECHO = [sys.executable, "-I", "-S", str(HERE / "servers" / "echo.py")]
SCRIPTS = Path(sys.executable).parent
CLIENTS = (1, 16, 64)
PATIENCE = 60.0
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"} | {
    "FASTMCP_LOG_ENABLED": "false",
    "FASTMCP_CHECK_FOR_UPDATES": "off",
    "SPINDLE_TRUST": "1",
}


@dataclass
class Gateway:
    name: str
    command: list[str]
    url: str
    call: Callable[[Connection, int], Any]
    is_mcp: bool = True
    environment: dict[str, str] = field(default_factory=dict[str, str])
    """What it is told beside `ENVIRONMENT`."""
    process: subprocess.Popen[bytes] | None = None
    cold_start: float = 0.0
    idle_mb: float = 0.0
    found: dict[int, list[tuple[float, float, float]]] = field(
        default_factory=dict[int, "list[tuple[float, float, float]]"]
    )
    """By the number of clients, for each round: ms of a call, calls a second, and µs of CPU a call."""

    async def start(self) -> None:
        """Until its first answer."""
        began = time.perf_counter()
        self.process = subprocess.Popen(
            self.command,
            env=ENVIRONMENT | self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while True:
            try:
                connection = await self.connect()
                await self.call(connection, 0)
                break
            except (OSError, SystemExit, asyncio.IncompleteReadError):
                if time.perf_counter() - began > PATIENCE or self.process.poll() is not None:
                    raise SystemExit(f"{self.name} does not start: {' '.join(self.command)}") from None
                await asyncio.sleep(0.02)
        self.cold_start = time.perf_counter() - began
        await connection.close()
        pids = [self.process.pid, *self._workers()]
        self.idle_mb = sum(psutil.Process(pid).memory_info().rss for pid in pids) / 2**20

    async def connect(self) -> Connection:
        connection = Connection(self.url)
        await connection.open()
        if self.is_mcp:
            await connection.handshake()
        return connection

    async def round(self, clients: int, calls: int, *, ready: int = 1) -> None:
        """Of each client, `calls` calls one after the other; all clients at once. `ready` of them have
        called before."""
        connections = [await self.connect() for _ in range(clients)]
        latencies: list[float] = []

        async def work(connection: Connection) -> None:
            for number in range(calls):
                began = time.perf_counter()
                await self.call(connection, number + 1)
                latencies.append(time.perf_counter() - began)

        for connection in connections[:ready]:
            await self.call(connection, 0)
        began, worked = time.perf_counter(), self.cpu()
        await asyncio.gather(*(work(connection) for connection in connections))
        rate = len(latencies) / (time.perf_counter() - began)
        cpu = (self.cpu() - worked) / len(latencies) * 1e6
        self.found.setdefault(clients, []).append((statistics.median(latencies) * 1000, rate, cpu))
        for connection in connections:
            await connection.close()

    def cpu(self) -> float:
        """Seconds of CPU that its own processes have used, in all threads: usual figures count hundredths."""
        assert self.process is not None
        own = [self.process.pid, *self._workers()]
        threads = [thread for pid in own for thread in Path("/proc", str(pid), "task").glob("*/schedstat")]
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9

    def _workers(self) -> list[int]:
        """The processes that a gateway with several workers has: the same program as it itself."""
        assert self.process is not None
        if "--workers" not in self.command:
            return []
        return [
            child.pid
            for child in psutil.Process(self.process.pid).children()
            if str(HERE / "servers") not in " ".join(child.cmdline())
        ]

    def stop(self) -> None:
        if self.process is not None:
            end(self.process)


def end(process: subprocess.Popen[Any]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def gateways(folder: str) -> list[Gateway]:
    command = json.dumps(ECHO)
    Path(folder, "spindle.toml").write_text(f"[sources.echo]\ncommand = {command}\nmax_concurrency = 64\n")
    ports = [free_port() for _ in range(7)]
    others = SCRIPTS.parent / "proxy" / "bin"
    spindle, proxy, mcpo = SCRIPTS / "spindle", others / "mcp-proxy", others / "mcpo"
    at = [f"http://127.0.0.1:{port}" for port in ports]
    serve = [str(spindle), "-w", folder, "serve", "--http", "--port", str(ports[0])]
    return [
        Gateway("spindle serve", serve, f"{at[0]}/mcp", mcp_call("echo_echo")),
        *(
            Gateway(
                f"spindle serve, {workers} workers",
                [*serve[:-1], str(port), "--workers", str(workers)],
                f"http://127.0.0.1:{port}/mcp",
                mcp_call("echo_echo"),
            )
            for workers, port in zip((2, 4), ports[5:], strict=True)
        ),
        Gateway(
            "floor, without guards",
            [sys.executable, str(HERE / "floor.py"), str(ports[4]), *ECHO],
            f"{at[4]}/mcp",
            mcp_call("echo"),
        ),
        Gateway(
            "mcp-proxy",
            [str(proxy), "--port", str(ports[1]), "--", *ECHO],
            f"{at[1]}/mcp",
            mcp_call("echo"),
        ),
        Gateway(
            "FastMCP proxy",
            [sys.executable, str(HERE / "fastmcp_proxy.py"), str(ports[2]), *ECHO],
            f"{at[2]}/mcp",
            mcp_call("echo"),
        ),
        Gateway(
            "mcpo (REST)",
            [str(mcpo), "--port", str(ports[3]), "--", *ECHO],
            f"{at[3]}/echo",
            rest_call("/echo"),
            is_mcp=False,
        ),
    ]


_FIGURES = (("median of a call", "ms"), ("calls a second", "calls/s"), ("CPU a call", "µs"))
_GOALS = {
    ("median of a call", 1, "floor, without guards"): 2.0,
    ("calls a second", 16, "floor, without guards"): 0.5,
    ("calls a second", 64, "floor, without guards"): 0.5,
    ("calls a second", 16, "mcp-proxy"): 5.0,
    ("calls a second", 64, "mcp-proxy"): 5.0,
}
"""What Spindle's figure must be in terms of the other's."""


async def _measure(quick: bool) -> list[Row]:
    rounds, calls = (2, 400) if quick else (8, 1600)
    with tempfile.TemporaryDirectory() as folder:
        contenders = gateways(folder)
        try:
            for gateway in contenders:
                await gateway.start()
            for _ in range(rounds):
                for clients in CLIENTS:
                    # In an order drawn anew: where the system has put the processes depends on what was
                    # measured before, and some gateways are twice as fast after one than after another.
                    for gateway in random.sample(contenders, len(contenders)):
                        await gateway.round(clients, max(calls // clients, 10))
        finally:
            for gateway in contenders:
                gateway.stop()
    ours = contenders[0]
    rows = compared("serving", contenders, CLIENTS, _GOALS)
    for gateway in contenders:
        goals = (2.0, 60.0) if gateway is ours else (None, None)
        rows.append(Row("serving", f"cold start: {gateway.name}", gateway.cold_start, "s", goal=goals[0]))
        rows.append(Row("serving", f"idle memory: {gateway.name}", gateway.idle_mb, "MB", goal=goals[1]))
    return rows


def compared(
    part: str, contenders: list[Gateway], numbers: tuple[int, ...], goals: dict[tuple[str, int, str], float]
) -> list[Row]:
    """The figures of all gateways, by the number of clients. The first of them is ours."""
    ours = contenders[0]
    rows: list[Row] = []
    for clients in numbers:
        for position, (what, unit) in enumerate(_FIGURES):
            for gateway in contenders:
                value = statistics.median(item[position] for item in gateway.found[clients])
                pairs = list(zip(ours.found[clients], gateway.found[clients], strict=True))
                if not all(theirs[position] for _, theirs in pairs):
                    continue  # the CPU of a server that is not the gateway's own process
                ratio = statistics.median(mine[position] / theirs[position] for mine, theirs in pairs)
                name = f"{what}, {clients} clients: {gateway.name}"
                # Ours over theirs: below one is better for times, above one for rates.
                goal = goals.get((what, clients, gateway.name))
                shown = ratio if gateway is not ours else None
                rows.append(Row(part, name, value, unit, shown, goal, at_least=unit == "calls/s"))
    return rows


def serving(quick: bool) -> list[Row]:
    return asyncio.run(_measure(quick))
