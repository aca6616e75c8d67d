"""Several `spindle serve` processes of one workspace behind a proxy that hands each connection to the next,
and clients that call through it while processes die."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import re
import signal
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult

from servers import warm
from servers.round_robin import RoundRobin
from servers.running import PATIENCE, REPOSITORY, missing
from servers.serving import ERAS

TOOLS = """
from spindle import Context, tool

@tool
def say(text: str) -> str:
    return text

@tool
def count(context: Context) -> str:
    for number in (1, 2, 3):
        context.progress(number, 3)
    return "counted"
"""
FIXTURE = Path(__file__).parent / "conformance" / "fixture_server.py"
ASKS, SAYS, COUNTS = "test_elicitation", "say", "count"
ARGUMENTS: dict[str, dict[str, Any]] = {ASKS: {"message": "Who?"}, SAYS: {"text": "hello"}, COUNTS: {}}
EXPECTED = {ASKS: "ann@example.com", SAYS: "hello", COUNTS: "counted"}
ANN = {"username": "ann", "email": "ann@example.com"}
PACKAGES = REPOSITORY / ".node" / "node24" / "node_modules"


def workspace(folder: Path, store: str | None) -> Path:
    """Writes a workspace with a tool that answers, one that tells of progress, and one that asks."""
    (folder / "tools").mkdir()
    (folder / "tools" / "plain.py").write_text(TOOLS)
    lines = [
        *([f"store = {json.dumps(store)}"] if store else []),
        "[serve]",
        "shutdown_timeout = 2",
        "[sources.fixture]",
        f"command = {json.dumps([warm.PYTHON, str(FIXTURE)])}",
        'answers = ["elicitation"]',
        'protocol = "handshake"',
        "prefix = false",
    ]
    (folder / "spindle.toml").write_text("\n".join([*lines, ""]))
    return folder


class Replica:
    """One process, which comes back on the same port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = 0
        self.pid = 0
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[bytes] | None = None
        self.said = b""
        """All that its processes wrote."""

    async def start(self) -> None:
        self._process = process = await asyncio.create_subprocess_exec(
            warm.SPINDLE, "-w", str(self._folder), "serve", "--http", "--port", str(self.port),
            stderr=asyncio.subprocess.PIPE, env={**os.environ},
        )  # fmt: skip
        assert process.stderr is not None
        async with asyncio.timeout(2 * PATIENCE):
            while not (
                found := re.search(rb"serving MCP on \S+:(\d+)", line := await process.stderr.readline())
            ):
                assert line, "the server ended"
        self.port = int(found[1])
        self.pid = warm.pid_of(process.pid)
        self._reading = asyncio.create_task(process.stderr.read())

    async def end(self, how: signal.Signals) -> None:
        """Ends the process in a way, and waits for it."""
        process = self._process
        if process is None or self._reading is None:
            return
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, how)
        async with asyncio.timeout(2 * PATIENCE):
            await process.wait()
            self.said += await self._reading
        self._process = self._reading = None


@contextlib.asynccontextmanager
async def replicas(folder: Path, count: int = 3) -> AsyncGenerator[tuple[RoundRobin, list[Replica]]]:
    """The processes, all at work, and the proxy in front of them."""
    made = [Replica(folder) for _ in range(count)]
    try:
        for replica in made:  # one after the other: the first prepares the workspace
            await replica.start()
        async with RoundRobin([replica.port for replica in made]) as proxy:
            yield proxy, made
    finally:
        for replica in made:
            await replica.end(signal.SIGTERM)


@dataclass
class Called:
    """A call that ended, and how; times are of the wall clock."""

    client: str
    tool: str
    began: float
    ended: float
    error: str | None = None


@dataclass
class Log:
    """All that the clients saw."""

    calls: list[Called] = field(default_factory=list[Called])
    progress: int = 0
    """Notices of progress."""
    sessions: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """The ids of the sessions that each client had."""

    def unexcused(self, cut: list[float]) -> list[Called]:
        """The calls that failed though none of the connections that servers ended was theirs."""
        return [
            call
            for call in self.calls
            if call.error is not None and not any(call.began - 0.1 <= at <= call.ended + 0.1 for at in cut)
        ]

    @property
    def failed(self) -> list[Called]:
        return [call for call in self.calls if call.error is not None]


class Balanced(httpx2.AsyncHTTPTransport):
    """Has a lost connection answered with 502, as proxies of HTTP do: the SDK's client would end with it, and
    not the call alone. Remembers the sessions that it saw."""

    def __init__(self, sessions: set[str]) -> None:
        super().__init__()
        self._sessions = sessions

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if "mcp-session-id" in request.headers:
            self._sessions.add(request.headers["mcp-session-id"])
        try:
            return await super().handle_async_request(request)
        except (httpx2.RemoteProtocolError, httpx2.NetworkError):
            return httpx2.Response(502, request=request)


async def call_from_python(url: str, era: str, log: Log, goes_on: Callable[[], bool]) -> None:
    """Makes calls of all kinds in one session, for as long as is wanted."""

    async def fill_in(_: Any, __: Any) -> ElicitResult:
        return ElicitResult(action="accept", content=ANN)

    async def progressed(*_: Any) -> None:
        log.progress += 1

    name = f"python {era}"
    async with (
        httpx2.AsyncClient(
            transport=Balanced(log.sessions.setdefault(name, set())), timeout=2 * PATIENCE
        ) as http,
        Client(
            streamable_http_client(url, http_client=http), mode=ERAS[era], elicitation_callback=fill_in
        ) as client,
    ):
        for tool in itertools.cycle((SAYS, COUNTS, SAYS, ASKS)):
            if not goes_on():
                return
            began, error = time.time(), None
            try:
                told = progressed if tool == COUNTS else None
                done = await client.call_tool(tool, ARGUMENTS[tool], 2 * PATIENCE, told)
                text = str(done.content)
                error = None if EXPECTED[tool] in text and not done.is_error else text
            except Exception as failure:
                error = repr(failure)
            log.calls.append(Called(name, tool, began, time.time(), error))


async def call_from_typescript(url: str, era: str, log: Log, goes_on: Callable[[], bool]) -> None:
    """The same with the SDK of TypeScript, in a process of its own."""
    node = PACKAGES / "node" / "bin" / "node"
    if not (PACKAGES / "@modelcontextprotocol" / "client").exists():
        missing("the TypeScript SDK is not installed: run `make node`")
    process = await asyncio.create_subprocess_exec(
        str(node), str(Path(__file__).with_name("replica_client.mjs")), url, era,
        str(PACKAGES / "@modelcontextprotocol" / "client" / "dist" / "index.mjs"),
        # The SDK waits to the end for a call whose stream was cut before it had an event.
        json.dumps({"arguments": ARGUMENTS, "expected": EXPECTED, "answer": ANN, "seconds": PATIENCE / 2}),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=2**20,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        async for line in process.stdout:
            seen = json.loads(line)
            log.progress += seen["progress"]
            log.sessions.setdefault(f"typescript {era}", set()).add(str(seen["session"]))
            log.calls.append(
                Called(f"typescript {era}", seen["tool"], seen["began"], seen["ended"], seen["error"])
            )
            if not goes_on():
                break
    finally:
        process.stdin.close()
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


CLIENTS = {"python": call_from_python, "typescript": call_from_typescript}
