"""The older HTTP transport, served to old clients where that is asked for."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as t
from mcp import Client
from mcp.client.sse import sse_client

import spindle
from servers.running import PATIENCE
from servers.serving import served, text_of
from spindle import Context, tool

NAMED = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@tool
def add(a: int, b: int, ctx: Context) -> int:
    """Adds two numbers."""
    ctx.progress(1, 2, "half way")
    return a + b


@tool
def who(ctx: Context) -> str:
    """Asks for a name."""
    return f"hello {ctx.ask('Who?', NAMED)['name']}"


@tool
async def forever() -> None:
    """Never ends."""
    await asyncio.get_running_loop().create_future()


def at(url: str, path: str = "/sse") -> str:
    return url.removesuffix("/mcp") + path


async def test_an_old_client_lists_calls_and_is_asked(tmp_path: Path) -> None:
    told: list[Any] = []

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async def fill_in(_context: Any, params: Any) -> t.ElicitResult:
        return t.ElicitResult(action="accept", content={"name": "Ada"})

    async with (
        spindle.open(tmp_path, tools=[add, who]) as app,
        served(app, sse=True) as url,
        Client(sse_client(at(url)), mode="legacy", elicitation_callback=fill_in) as client,
        Client(url) as other,
    ):
        assert {item.name for item in (await client.list_tools()).tools} == {"add", "who"}
        result = await client.call_tool("add", {"a": 1, "b": 2}, progress_callback=heard)
        assert text_of(await client.call_tool("who", {})) == "hello Ada"
        assert text_of(await other.call_tool("add", {"a": 2, "b": 2})) == "4"
    assert text_of(result) == "3"
    assert told == [(1, 2, "half way")]


async def test_it_is_not_served_unless_asked_for(tmp_path: Path) -> None:
    async with spindle.open(tmp_path, tools=[add]) as app, served(app) as url, httpx2.AsyncClient() as http:
        assert (await http.get(at(url))).status_code == 404
        assert (await http.post(at(url, "/messages"), json={})).status_code == 404


async def opened(http: httpx2.AsyncClient, url: str) -> tuple[Any, Any, str]:
    request = http.build_request("GET", at(url))
    stream = await http.send(request, stream=True)
    assert stream.status_code == 200, stream.status_code
    lines = stream.aiter_lines()
    while not (line := await anext(lines)).startswith("data: "):
        pass
    return stream, lines, line.removeprefix("data: ")


async def test_the_guards_are_the_same(tmp_path: Path) -> None:
    tokens = {name: {"token": f"token-{name}"} for name in ("ann", "bob")}
    async with (
        spindle.open(tmp_path, tools=[add]) as app,
        served(app, sse=True, tokens=tokens, max_body_size=1000) as url,
        httpx2.AsyncClient(timeout=PATIENCE) as nobody,
        httpx2.AsyncClient(headers={"authorization": "Bearer token-ann"}, timeout=PATIENCE) as ann,
        httpx2.AsyncClient(headers={"authorization": "Bearer token-bob"}, timeout=PATIENCE) as bob,
    ):
        assert (await nobody.get(at(url))).status_code == 401
        assert (await ann.get(at(url), headers={"origin": "https://evil.example"})).status_code == 403
        stream, _lines, endpoint = await opened(ann, url)
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert (await nobody.post(at(url, endpoint), json=ping)).status_code == 401
        assert (await bob.post(at(url, endpoint), json=ping)).status_code == 404, "another's stream is none"
        assert (await ann.post(at(url, endpoint), content=b"{}")).status_code == 415
        large = {**ping, "params": {"x": "y" * 2000}}
        assert (await ann.post(at(url, endpoint), json=large)).status_code == 413
        assert (await ann.post(at(url, endpoint), json=ping)).status_code == 202
        await stream.aclose()


async def test_the_streams_of_one_client_are_limited_and_end_with_their_calls(tmp_path: Path) -> None:
    async with (
        spindle.open(tmp_path, tools=[forever]) as app,
        served(app, sse=True, quotas={"streams": 1}) as url,
        httpx2.AsyncClient(timeout=PATIENCE) as http,
    ):
        _first, lines, endpoint = await opened(http, url)
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "forever"}}
        assert (await http.post(at(url, endpoint), json=call)).status_code == 202
        second, _lines, _ = await opened(http, url)
        rest = [line async for line in lines]
        assert not any("result" in line for line in rest), "the older one ended, with what it asked for"
        assert (await http.post(at(url, endpoint), json=call)).status_code == 404
        await second.aclose()
