"""One client of the HTTP server, in a process of its own: does a round of calls each time it is told to.

`upstream_worker.py CLIENT URL`, then lines `CALLS PARALLEL` on stdin, each answered by one line of JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from call_worker import Call, serve_rounds


@contextlib.asynccontextmanager
async def bare_aiohttp(url: str) -> AsyncIterator[Call]:
    import aiohttp

    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:

        async def call() -> None:
            async with session.post(f"{url}/echo", json={"text": "hello"}) as answer:
                assert (await answer.json())["text"] == "hello"

        yield call


@contextlib.asynccontextmanager
async def spindle_openapi(url: str) -> AsyncIterator[Call]:
    async with _spindle(f'kind = "openapi"\ndocument = "{url}/openapi.json"\nbase_url = "{url}"') as call:
        yield call


def spindle_mcp(path: str) -> Callable[[str], AbstractAsyncContextManager[Call]]:
    return lambda url: _spindle(f'url = "{url}/{path}"')


@contextlib.asynccontextmanager
async def _spindle(settings: str) -> AsyncIterator[Call]:
    import spindle

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "spindle.toml").write_text(f"[sources.up]\n{settings}\nmax_concurrency = 64\n")
        async with spindle.open(folder) as s:

            async def call() -> None:
                result = await s.call("up.echo", text="hello")
                assert "hello" in result.text

            yield call


@contextlib.asynccontextmanager
async def mcp_client(url: str) -> AsyncIterator[Call]:
    from mcp import Client

    async with Client(f"{url}/mcp") as client:
        await client.list_tools()

        async def call() -> None:
            result = await client.call_tool("echo", {"text": "hello"})
            assert result.content[0].text == "hello"  # type: ignore[union-attr]

        yield call


@contextlib.asynccontextmanager
async def link(url: str) -> AsyncIterator[Call]:
    """The upstream half of a call alone: a request and its answer, without the guards of a call."""
    from spindle.domain.identity import NO_CREDENTIAL
    from spindle.sources.mcp.config import McpConfig
    from spindle.sources.mcp.exchange import CallExchange
    from spindle.sources.mcp.http_dispatcher import HttpDispatcher
    from spindle.sources.mcp.session_http import SessionHttp
    from spindle.sources.mcp.streamable import StreamableLink

    config = McpConfig(url=f"{url}/mcp")
    async with (
        contextlib.aclosing(SessionHttp("up", config, NO_CREDENTIAL)) as http,
        contextlib.aclosing(HttpDispatcher(StreamableLink(http, f"{url}/mcp"), 2**24)) as messages,
    ):
        await messages.send_raw_request("initialize", {"protocolVersion": "2025-11-25"})

        async def call() -> None:
            params = {"name": "echo", "arguments": {"text": "hello"}}
            coming = messages.begin_call(params, {}, CallExchange())
            result = await (coming or messages.send_raw_request("tools/call", params))
            assert result["content"][0]["text"] == "hello"

        yield call


CLIENTS = {
    "aiohttp": bare_aiohttp,
    "openapi": spindle_openapi,
    "spindle": spindle_mcp("mcp"),
    "events": spindle_mcp("events"),
    "modern": spindle_mcp("modern"),
    "link": link,
    "mcp": mcp_client,
}

if __name__ == "__main__":
    asyncio.run(serve_rounds(CLIENTS[sys.argv[1]](sys.argv[2])))
