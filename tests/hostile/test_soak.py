"""Mixed calls of many clients whose sessions come and go, for a while: what a server holds does not grow."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import random
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
import tomlkit

from hostile.conftest import Figures
from mcp_server.test_http_serving import JSON, initialize, modern, rpc
from servers import warm
from servers.running import PATIENCE, StdioServers

SERVER = Path(__file__).parent.parent / "servers" / "soaked_server.py"
CLIENTS = 200
AT_ONCE = 8
TOOLS = """
import asyncio
from spindle import Context, tool

@tool
def say(text: str) -> str:
    return text * 20

@tool
async def slow(text: str) -> str:
    await asyncio.sleep(5)
    return text

@tool
async def nested(text: str, ctx: Context) -> str:
    return (await ctx.call("say", text=text)).text
"""
FLOW = {
    "version": 1,
    "inputs": {"text": {"type": "string"}},
    "nodes": [{"id": "say", "tool": "say", "params": {"text": "${text}"}}],
    "edges": [],
}
PRICES = {
    "openapi": "3.1.0",
    "info": {"title": "prices", "version": "1"},
    "paths": {
        "/price": {
            "get": {
                "operationId": "price",
                "parameters": [{"name": "item", "in": "query", "schema": {"type": "string"}}],
                "responses": {"200": {"description": "The price."}},
            }
        }
    },
}
ALLOWED = {
    # By what is held: by which factor and by how much it may grow from one half to the next.
    "memory": (1.03, 4_000),
    "descriptors": (1.0, 12),
    "tasks": (1.0, 40),
    "threads": (1.0, 3),
    "objects": (1.03, 3_000),
    "largest": (1.1, 50),
    "state": (1.1, 1_500_000),
}


async def answer_prices(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            await reader.readuntil(b"\r\n\r\n")
            body = b'{"price": 3}'
            head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            await writer.drain()
    writer.close()


class Soaked:
    """The server under load."""

    def __init__(self, process: asyncio.subprocess.Process, urls: dict[str, str], http: Any) -> None:
        self._process = process
        self._mcp, self._rest = f"{urls['mcp']}/mcp", urls["rest"]
        self._http = http
        self._random = random.Random(15)
        self.done: collections.Counter[str] = collections.Counter()

    async def held(self) -> dict[str, int]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"\n")
        async with asyncio.timeout(PATIENCE):
            return json.loads(await self._process.stdout.readline())

    async def load_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        actions: list[Callable[[dict[str, str]], Awaitable[None]]] = [
            self.over_rest, self.over_mcp, self.in_a_session, self.listening, self.given_up,
        ]  # fmt: skip

        async def one() -> None:
            while time.monotonic() < end:
                action = self._random.choices(actions, (6, 6, 3, 1, 1))[0]
                await action(self._somebody())
                self.done[action.__name__] += 1

        await asyncio.gather(*(one() for _ in range(AT_ONCE)))

    def _somebody(self) -> dict[str, str]:
        return {"authorization": f"Bearer token-of-{self._random.randrange(CLIENTS)}"}

    def calls(self, text: str) -> dict[str, dict[str, str]]:
        """The arguments of each tool."""
        own = {name: {"text": text} for name in ("say", "nested", "shout", "echo.echo")}
        return own | {"prices.price": {"item": text}}

    def _call(self, name: str | None = None) -> tuple[str, dict[str, str]]:
        calls = self.calls(str(self._random.random()))
        chosen = name or self._random.choice(list(calls))
        return chosen, calls[chosen]

    async def over_rest(self, who: dict[str, str], tool: str | None = None) -> None:
        name, arguments = self._call(tool)
        answer = await self._http.post(f"{self._rest}/tools/{name}", json=arguments, headers=who)
        assert answer.status_code == 200, (name, answer.text)

    async def over_mcp(self, who: dict[str, str], tool: str | None = None) -> None:
        name, arguments = self._call(tool)
        body, headers = modern("tools/call", name.replace(".", "_"), arguments=arguments)
        answer = await self._http.post(self._mcp, json=body, headers=headers | who)
        assert answer.status_code == 200, (name, answer.text)
        assert not answer.json()["result"].get("isError"), answer.text

    async def opened(self, who: dict[str, str]) -> dict[str, str]:
        answer = await self._http.post(self._mcp, json=initialize(), headers=JSON | who)
        assert answer.status_code == 200, answer.text
        more = {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        return {**JSON, **who, **more}

    async def in_a_session(self, who: dict[str, str]) -> None:
        session = await self.opened(who)
        name, arguments = self._call()
        body = rpc("tools/call", name=name.replace(".", "_"), arguments=arguments)
        answer = await self._http.post(self._mcp, json=body, headers=session)
        # Somebody may have opened so many for the same client meanwhile that this one had to end.
        assert answer.status_code in (200, 404), answer.text
        if self._random.random() < 0.5:
            await self._http.delete(self._mcp, headers=session)

    async def listening(self, who: dict[str, str]) -> None:
        body, headers = modern("subscriptions/listen", notifications={"toolsListChanged": True})
        async with self._http.stream("POST", self._mcp, json=body, headers=headers | who) as answer:
            assert answer.status_code == 200
            await anext(answer.aiter_lines())

    async def given_up(self, who: dict[str, str]) -> None:
        with contextlib.suppress(httpx2.TimeoutException):
            address = f"{self._rest}/tools/slow"
            await self._http.post(address, json={"text": "x"}, headers=who, timeout=0.05)


@contextlib.asynccontextmanager
async def soaked(root: Path, stdio: StdioServers) -> AsyncIterator[Soaked]:
    api = await asyncio.start_server(answer_prices, "127.0.0.1", 0)
    port = api.sockets[0].getsockname()[1]
    for folder in ("tools", "flows"):
        (root / folder).mkdir(parents=True)
    (root / "tools" / "t.py").write_text(TOOLS)
    (root / "flows" / "shout.json").write_text(json.dumps(FLOW))
    (root / "prices.json").write_text(json.dumps(PRICES))
    settings = {
        "sources": {
            "echo": stdio("echo"),
            "prices": {"kind": "openapi", "document": "prices.json", "base_url": f"http://127.0.0.1:{port}"},
        },
        "serve": {
            "tokens": {f"user-{n}": {"token": f"token-of-{n}"} for n in range(CLIENTS)},
            "quotas": {"sessions": 2},
        },
        "retention": {"calls": {"count": 300}, "runs": {"count": 50}, "every": 1.0},
    }
    (root / "spindle.toml").write_text(tomlkit.dumps(settings))
    process = await asyncio.create_subprocess_exec(
        warm.PYTHON, str(SERVER), str(root),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            urls = json.loads(await process.stdout.readline())
        async with httpx2.AsyncClient(timeout=PATIENCE, verify=False) as http:
            yield Soaked(process, urls, http)
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        api.close()


def grown(samples: list[dict[str, int]]) -> dict[str, tuple[float, float, bool]]:
    """By what is held: the median of each half, and whether it stayed as it was."""
    half = len(samples) // 2
    found: dict[str, tuple[float, float, bool]] = {}
    for name, (factor, more) in ALLOWED.items():
        first, second = (
            statistics.median(sample[name] for sample in part) for part in (samples[:half], samples[half:])
        )
        found[name] = first, second, second <= first * factor + more
    return found


async def test_the_whole_load_once(tmp_path: Path, stdio_server: StdioServers) -> None:
    """Each kind of call works, and its sessions and streams end: the short form of the test below."""
    async with soaked(tmp_path / "work", stdio_server) as server:
        who = server._somebody()
        for name in server.calls("x"):
            await server.over_rest(who, name)
            await server.over_mcp(who, name)
        await server.in_a_session(who)
        await server.listening(who)
        before = await server.held()
        for _ in range(20):
            await server.opened(who)
            await server.listening(who)
            await server.given_up(who)
        after = await server.held()
        assert after["tasks"] <= before["tasks"] + 20
        assert after["descriptors"] <= before["descriptors"] + 20


@pytest.mark.soak
async def test_what_a_server_holds_stays_as_it_is(
    tmp_path: Path, stdio_server: StdioServers, seconds: float, figures: Figures
) -> None:
    async with soaked(tmp_path / "work", stdio_server) as server:
        # All the sessions that there can be, so that the rest of the time is like its end.
        for number in range(CLIENTS):
            for _ in range(2):
                await server.opened({"authorization": f"Bearer token-of-{number}"})
        await server.load_for(seconds / 3)
        samples: list[dict[str, int]] = []
        parts = 20
        for _ in range(parts):
            await server.load_for(seconds * 2 / 3 / parts)
            samples.append(await server.held())
        total = sum(server.done.values())
        figures(f"{total} actions of {CLIENTS} clients in {seconds:.0f} s: {dict(server.done)}")
    found = grown(samples)
    for name, (first, second, _) in found.items():
        figures(f"{name}: {first:,.0f} in the first half, {second:,.0f} in the second")
    assert [name for name, (_, _, is_flat) in found.items() if not is_flat] == []
