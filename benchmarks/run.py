"""Spindle beside its peers, in one run: `make bench ARGS="[--json] [--quick] [PART…]"`.

Rounds of all contenders are interleaved, each in a process of its own, so that a busy moment of the
machine meets all of them. Trust the ratios; the times are this machine's.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import spindle
from agents import agents
from code_mode import code
from console import console
from doubt import doubt
from engine import engine
from flows import flows
from injection import injection
from openapi import openapi
from parts import parts
from scaling import scaling
from search import search
from serving import serving
from table import Row, table
from tables import tables
from upstream import through_http
from warm import warm

HERE = Path(__file__).parent
SERVER = HERE / "servers" / "echo.py"
PARTS = (
    "calls",
    "startup",
    "warm",
    "catalog",
    "flows",
    "doubt",
    "agents",
    "code",
    "tables",
    "serving",
    "upstream",
    "scaling",
    "engine",
    "console",
)
ON_REQUEST = ("openapi", "search", "parts", "injection")
"""Parts that need much to be downloaded, by themselves or by `make node`, or compare nothing: only when
named."""
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"} | {
    "FASTMCP_LOG_ENABLED": "false",
    "FASTMCP_CHECK_FOR_UPDATES": "off",
    "SPINDLE_TRUST": "1",
}


# --- calls


class Worker:
    def __init__(self, client: str, tool: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "call_worker.py"), client, tool],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT,
        )  # fmt: skip

    def round(self, calls: int, parallel: int = 1) -> dict[str, float]:
        assert self._process.stdin
        assert self._process.stdout
        print(calls, parallel, file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


def calls(quick: bool) -> list[Row]:
    rounds, size = (3, 100) if quick else (30, 100)
    rows: list[Row] = []
    for tool, label in (("echo", "no output schema"), ("echo_structured", "with output schema")):
        workers = {client: Worker(client, tool) for client in ("mcp", "fastmcp", "spindle")}
        for worker in workers.values():
            worker.round(size)
        single: dict[str, list[dict[str, float]]] = {client: [] for client in workers}
        parallel: dict[str, list[dict[str, float]]] = {client: [] for client in workers}
        for _ in range(rounds):
            for client, worker in workers.items():
                single[client].append(worker.round(size))
        for _ in range(max(rounds // 3, 2)):
            for client, worker in workers.items():
                parallel[client].append(worker.round(256, 64))
        for worker in workers.values():
            worker.close()
        for what, unit, found, key, goal in (
            (f"CPU a call, {label}", "µs", single, "cpu_us", 0.35),
            (f"latency, {label}", "µs", single, "latency_us", None),
            (f"64 in parallel, {label}", "calls/s", parallel, "calls_per_s", 3.0),
        ):
            for client in workers:
                value = statistics.median(item[key] for item in found[client])
                # Rounds that were run next to each other are compared: the machine's speed drifts.
                pairs = zip(found[client], found["mcp"], strict=True)
                ratio = statistics.median(mine[key] / theirs[key] for mine, theirs in pairs)
                names = {"mcp": "mcp.Client", "fastmcp": "fastmcp.Client", "spindle": "s.call, guarded"}
                wanted = goal if client == "spindle" else None
                at_least = unit == "calls/s"
                rows.append(
                    Row("calls", f"{what}: {names[client]}", value, unit, ratio, wanted, at_least=at_least)
                )
    return rows


# --- starting


def child_cpu(command: list[str], cwd: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=cwd, env=ENVIRONMENT, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr.decode()}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def startup(quick: bool) -> list[Row]:
    program = str(Path(sys.executable).with_name("spindle"))
    with tempfile.TemporaryDirectory() as folder:
        workspace(folder, 998)
        worker("sync", folder)
        commands: dict[str, tuple[list[str], float | None]] = {
            "python -c pass": ([sys.executable, "-c", "pass"], None),
            "spindle --help": ([program, "--help"], 0.12),
            "spindle tools, 1,000 stored": ([program, "tools"], 0.25),
            "spindle call, cold, echo over stdio": ([program, "call", "echo.echo", "--text=hello"], 0.45),
        }
        found: dict[str, list[float]] = {name: [] for name in commands}
        for number in range(3 if quick else 8):
            for name, (command, _) in commands.items():
                seconds = child_cpu(command, folder)
                if number:  # the first fills caches
                    found[name].append(seconds)
    return [
        Row("startup", f"CPU of `{name}`", min(found[name]), "s", goal=goal)
        for name, (_, goal) in commands.items()
    ]


# --- a large catalog


def workspace(folder: str, tools: int) -> None:
    command = json.dumps([sys.executable, "-I", "-S", str(SERVER), str(tools)])
    Path(folder, "spindle.toml").write_text(f"[sources.echo]\ncommand = {command}\ntimeout = 300\n")


def worker(action: str, folder: str) -> dict[str, float]:
    command = [sys.executable, str(HERE / "catalog_worker.py"), action, folder]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{action} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def catalog(quick: bool) -> list[Row]:
    with tempfile.TemporaryDirectory() as outer:
        folder = str(Path(outer, "workspace"))
        Path(folder).mkdir()
        workspace(folder, 998 if quick else 9998)
        synced = worker("sync", folder)
        opened = [worker("open", folder) for _ in range(2 if quick else 5)]
        found = [worker("search", folder) for _ in range(1 if quick else 3)]
    count = f"{synced['tools']:,.0f} tools"
    return [
        Row("catalog", f"sync of {count}, wall", synced["s"], "s"),
        Row("catalog", f"sync of {count}, CPU of the client", synced["cpu_s"], "s"),
        Row("catalog", f"open {count} and find one", min(item["ms"] for item in opened), "ms"),
        Row("catalog", "memory that takes", max(item["mb"] for item in opened), "MB"),
        Row("catalog", f"search {count}, median", min(item["median_ms"] for item in found), "ms", goal=10),
        Row(
            "catalog",
            f"search {count}, slowest query",
            min(item["worst_ms"] for item in found),
            "ms",
            goal=10,
        ),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "parts",
        nargs="*",
        choices=[*PARTS, *ON_REQUEST, []],
        metavar="|".join([*PARTS, *ON_REQUEST]),
        help=f"of the benchmark; by default all but {', '.join(ON_REQUEST)}, which are only run when named",
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, a smaller catalog")
    given = parser.parse_args()
    runs: dict[str, Callable[[bool], list[Row]]] = {
        "calls": calls, "startup": startup, "warm": warm, "catalog": catalog, "flows": flows, "doubt": doubt,
        "agents": agents, "code": code, "tables": tables, "serving": serving, "openapi": openapi,
        "search": search,
        "upstream": through_http, "scaling": scaling, "parts": parts, "engine": engine, "console": console,
        "injection": injection,
    }  # fmt: skip
    # As an installer does it: otherwise whoever loads a module first is measured compiling it.
    compileall.compile_dir(spindle.__path__[0], quiet=2)
    rows = [row for part in given.parts or PARTS for row in runs[part](given.quick)]
    if given.json:
        print(json.dumps([{**asdict(row), "met": row.met} for row in rows], indent=2))
    else:
        print(table(rows))
    return 1 if any(row.met is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
