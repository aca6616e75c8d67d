"""One client of the echo server, in a process of its own: does a round of calls each time it is told to.

`call_worker.py CLIENT TOOL`, then lines `CALLS PARALLEL` on stdin, each answered by one line of JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

SERVER = Path(__file__).parent / "servers" / "echo.py"
COMMAND = [sys.executable, "-I", "-S", str(SERVER)]

Call = Callable[[], Awaitable[None]]


@contextlib.asynccontextmanager
async def spindle_client(tool: str) -> AsyncIterator[Call]:
    import spindle

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "spindle.toml").write_text(
            f"[sources.echo]\ncommand = {json.dumps(COMMAND)}\nmax_concurrency = 64\n"
        )
        async with spindle.open(folder) as s:

            async def call() -> None:
                result = await s.call(f"echo.{tool}", text="hello")
                assert result.text == "hello"

            yield call


@contextlib.asynccontextmanager
async def mcp_client(tool: str) -> AsyncIterator[Call]:
    from mcp import Client, StdioServerParameters

    async with Client(StdioServerParameters(command=COMMAND[0], args=COMMAND[1:])) as client:
        await client.list_tools()

        async def call() -> None:
            result = await client.call_tool(tool, {"text": "hello"})
            assert result.content[0].text == "hello"  # type: ignore[union-attr]

        yield call


@contextlib.asynccontextmanager
async def fastmcp_client(tool: str) -> AsyncIterator[Call]:
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport

    async with Client(StdioTransport(COMMAND[0], COMMAND[1:], keep_alive=False)) as client:
        await client.list_tools()

        async def call() -> None:
            result = await client.call_tool(tool, {"text": "hello"})
            assert result.content[0].text == "hello"  # type: ignore[union-attr]

        yield call


CLIENTS = {"spindle": spindle_client, "mcp": mcp_client, "fastmcp": fastmcp_client}


async def one_by_one(call: Call, calls: int) -> list[float]:
    latencies: list[float] = []
    for _ in range(calls):
        began = time.perf_counter()
        await call()
        latencies.append(time.perf_counter() - began)
    return latencies


async def in_parallel(call: Call, calls: int, parallel: int) -> list[float]:
    shares = await asyncio.gather(*(one_by_one(call, calls // parallel) for _ in range(parallel)))
    return [latency for share in shares for latency in share]


async def serve_rounds(client: contextlib.AbstractAsyncContextManager[Call]) -> None:
    loop = asyncio.get_running_loop()
    async with client as call:
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            calls, parallel = map(int, line.split())
            wall, cpu = time.perf_counter(), time.process_time()
            latencies = await in_parallel(call, calls, parallel)
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            report = {
                "cpu_us": cpu / len(latencies) * 1e6,
                "latency_us": statistics.median(latencies) * 1e6,
                "calls_per_s": len(latencies) / wall,
            }
            print(json.dumps(report), flush=True)


if __name__ == "__main__":
    asyncio.run(serve_rounds(CLIENTS[sys.argv[1]](sys.argv[2])))
