"""What a call through `spindle serve` costs as things grow: tools in the catalog, sources, the size of a
result, and clients. Each should be flat, or for the size linear; the row on growth says which it is.

Growth is the power of the size by which the CPU of a call grows, from the cheapest to the largest: 0 is flat,
1 is linear. Of results only those from 100 kB count, where the bytes and not the call matter.
"""

from __future__ import annotations

import asyncio
import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from http_client import Connection
from serving import ENVIRONMENT, HERE, SCRIPTS, Gateway, free_port
from table import Row

ECHO = [sys.executable, "-I", "-S", str(HERE / "servers" / "echo.py")]
LIMITS = """\
max_concurrency = 64
max_tools = 200000
max_list_size = "1GB"
max_result_size = "64MB"
timeout = 300
"""
SERVE = """\
[serve]
max_connections = 4000
max_connections_per_address = 4000
[serve.quotas]
sessions = 4000
requests = 4000
"""
"""All clients come from one address and are one to the server, which is not what is measured."""
FLAT, LINEAR = 0.1, 1.1
"""The powers up to which growth counts as flat, and as linear."""


@dataclass(frozen=True)
class Size:
    """One size of what grows."""

    number: int
    label: str
    calls: int
    """Of all clients in one round."""
    clients: int = 16
    tools: int = 8
    sources: int = 1
    result: int = 0
    """Characters; 0: as many as were sent."""


@dataclass(frozen=True)
class Growing:
    """Something that grows, and how the cost of a call may grow with it."""

    what: str
    sizes: Sequence[Size]
    most: float = FLAT
    counted_from: int = 0


def growing(quick: bool) -> list[Growing]:
    """All that is measured. `quick`: without the largest."""
    calls = 640 if quick else 3200
    tools = [10, 1_000] if quick else [10, 1_000, 100_000]
    sources = [1, 50] if quick else [1, 50, 500]
    results = {"1 kB": 1_000, "100 kB": 100_000, "1 MB": 1_000_000}
    clients = [1, 16, 64, 256] if quick else [1, 16, 64, 256, 1_000]
    if not quick:
        results["10 MB"] = 10_000_000
    return [
        Growing("tools", [Size(n, f"{n:,} tools", calls, tools=n - 2) for n in tools]),
        Growing("sources", [Size(n, f"{n:,} sources", calls, sources=n) for n in sources]),
        Growing(
            "bytes of the result",
            [
                Size(n, f"a result of {label}", max(calls * 1000 // max(n, 1000), 16), clients=4, result=n)
                for label, n in results.items()
            ],
            LINEAR,
            counted_from=100_000,
        ),
        Growing("clients", [Size(n, f"{n:,} clients", max(calls, 2 * n), clients=n) for n in clients]),
    ]


def gateway(folder: str, size: Size) -> Gateway:
    """A server of so many sources, each of which has its share of the tools."""
    each = [*ECHO, str(max(size.tools // size.sources, 0))]
    tables = [
        f"[sources.s{number}]\ncommand = {json.dumps(each)}\n{LIMITS}" for number in range(size.sources)
    ]
    Path(folder, "spindle.toml").write_text("\n".join([SERVE, *tables]))
    program = [str(SCRIPTS / "spindle"), "-w", folder]
    # Before it serves: a catalog is listed once, and a call does not wait for that.
    subprocess.run([*program, "sync"], env=ENVIRONMENT, check=True, capture_output=True)
    port = free_port()
    serve = [*program, "serve", "--http", "--port", str(port)]
    return Gateway(size.label, serve, f"http://127.0.0.1:{port}/mcp", call_of(size))


def call_of(size: Size) -> Callable[[Connection, int], Any]:
    """Calls the sources one after the other, and checks each answer."""

    async def call(connection: Connection, number: int) -> None:
        text, count = f"hello {number}", size.result
        arguments = {"text": text} if not count else {"text": text, "count": count}
        tool = f"s{(number + id(connection) // 64) % size.sources}_{'sized' if count else 'echo'}"
        answer = await connection.rpc("tools/call", {"name": tool, "arguments": arguments}, number + 1)
        if "result" not in answer:
            raise SystemExit(f"no result: {str(answer)[:300]}")
        said = answer["result"]["content"][0]["text"]
        if (len(said) != count) if count else (said != text):
            raise SystemExit(f"wrong answer: {str(answer)[:300]}")

    return call


async def measured(size: Size, rounds: int) -> tuple[float, float]:
    """The CPU of the server for a call, in µs, and the calls a second."""
    with tempfile.TemporaryDirectory() as folder:
        server = gateway(folder, size)
        try:
            await server.start()
            await _all_started(server, size)
            for _ in range(rounds):
                await server.round(size.clients, max(size.calls // size.clients, 1))
        finally:
            server.stop()
    found = server.found[size.clients]
    return min(cpu for _, _, cpu in found), statistics.median(rate for _, rate, _ in found)


async def _all_started(server: Gateway, size: Size) -> None:
    """Every source's process runs, so that what is measured are calls."""
    connection = await server.connect()
    for number in range(size.sources):
        params: Any = {"name": f"s{number}_echo", "arguments": {"text": "x"}}
        await connection.rpc("tools/call", params, number + 1)
    await connection.close()


def growth(sizes: Sequence[Size], costs: Sequence[float], counted_from: int) -> float:
    """The power of the size by which the cost grows."""
    pairs = [
        (size.number, cost) for size, cost in zip(sizes, costs, strict=True) if size.number >= counted_from
    ]
    # One client alone costs more a call than sixteen: turns of the loop are not shared.
    (least, low), (most, high) = min(pairs, key=lambda pair: pair[1]), pairs[-1]
    return math.log(high / low) / math.log(most / least) if most > least else 0.0


def word_for(power: float) -> str:
    return (
        "flat"
        if power <= FLAT
        else "less than linear"
        if power < 0.9
        else "linear"
        if power <= LINEAR
        else "worse"
    )


async def _scaling(quick: bool) -> list[Row]:
    rows: list[Row] = []
    for thing in growing(quick):
        costs: list[float] = []
        for size in thing.sizes:
            cpu, rate = await measured(size, 2 if quick else 3)
            costs.append(cpu)
            rows.append(Row("scaling", f"CPU a call, {size.label}", cpu, "µs", cpu / costs[0]))
            rows.append(Row("scaling", f"calls a second, {size.label}", rate, "calls/s"))
        power = growth(thing.sizes, costs, thing.counted_from)
        what = f"growth with {thing.what}: {word_for(power)}"
        rows.append(Row("scaling", what, max(power, 0.0), "", goal=thing.most))
    return rows


def scaling(quick: bool) -> list[Row]:
    """See above; `--quick` leaves out 100,000 tools, 500 sources, 10 MB and 1,000 clients."""
    return asyncio.run(_scaling(quick))
