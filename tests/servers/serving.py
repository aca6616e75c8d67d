"""A workspace that is served as an MCP server: in this process over real HTTP and real pipes, or by the
command line."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import uvicorn
from mcp import Client, StdioServerParameters

from servers import warm
from servers.running import PATIENCE
from spindle.app import Spindle
from spindle.domain.serve import ServeConfig
from spindle.listening.server import address_of, listen
from spindle.mcp_server.serve import run_http
from spindle.mcp_server.server import CatalogServer
from spindle.mcp_server.stdio import serve_stdio
from spindle.serving.access import ServingAccess

ERAS = {"modern": "auto", "handshake": "legacy"}
"""By era, the mode of the SDK's client."""
SPINDLE = str(Path(sys.executable).with_name("spindle"))
"""For tests about the process itself; others take that of `servers.warm`."""


@contextlib.asynccontextmanager
async def listening_at(web: Any, listening: socket.socket) -> AsyncIterator[None]:
    """A web application, served over HTTP at a socket for as long as this lasts."""
    server = uvicorn.Server(uvicorn.Config(web, log_level="warning", lifespan="off"))
    serving = asyncio.create_task(server.serve([listening]))
    try:
        yield
    finally:
        server.should_exit = True
        await serving


@contextlib.asynccontextmanager
async def served(
    app: Spindle, *, access: ServingAccess | None = None, console: Any = None, **serve: Any
) -> AsyncGenerator[str]:
    """The address of the workspace, served over HTTP for as long as this lasts."""
    access = access or ServingAccess.of(ServeConfig(port=0, **serve), {})
    config = access.config
    with listen(config.host, config.port) as listening:
        running = asyncio.create_task(run_http(app, access, listening, console=console))
        try:
            yield f"{address_of(listening, config.host)}/mcp"
        finally:
            running.cancel()
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(running, return_exceptions=True)


class Lines:
    """A client at the other end of a server's pipes, that writes and reads whole lines."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.WriteTransport, done: Any) -> None:
        self._reader = reader
        self._writer = writer
        self.done = done

    def send(self, *messages: Any) -> None:
        for message in messages:
            line = message if isinstance(message, bytes) else json.dumps(message).encode()
            self._writer.write(line + b"\n")

    def request(self, number: int | str, method: str, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})

    async def read(self) -> Any:
        async with asyncio.timeout(PATIENCE):
            return json.loads(await self._reader.readline())

    async def next_answer(self) -> Any:
        """The next message that is no notification: those come when they like."""
        while "method" in (message := await self.read()):
            pass
        return message

    async def answer(self, number: int | str) -> Any:
        while (message := await self.next_answer()).get("id") != number:
            pass
        return message

    async def rest(self) -> list[Any]:
        async with asyncio.timeout(PATIENCE):
            return [json.loads(line) for line in (await self._reader.read()).splitlines()]

    async def handshake(self, version: str = "2025-11-25", **capabilities: Any) -> Any:
        info = {"name": "test", "version": "1"}
        self.request(0, "initialize", protocolVersion=version, capabilities=capabilities, clientInfo=info)
        found = await self.answer(0)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return found

    def close(self) -> None:
        self._writer.close()


@contextlib.asynccontextmanager
async def piped(app: Spindle, *, access: ServingAccess | None = None, **serve: Any) -> AsyncGenerator[Lines]:
    """The workspace, served over pipes in this process."""
    loop = asyncio.get_running_loop()
    (their_in, our_out), (our_in, their_out) = os.pipe(), os.pipe()
    catalog = CatalogServer(app, access or ServingAccess.of(ServeConfig(**serve), {}))
    await catalog.start()
    running = asyncio.create_task(serve_stdio(catalog, their_in, their_out))
    reader = asyncio.StreamReader(limit=2**26)
    reading, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(our_in, "rb", 0)
    )
    writer, _ = await loop.connect_write_pipe(asyncio.Protocol, os.fdopen(our_out, "wb", 0))
    try:
        yield Lines(reader, writer, running)
    finally:
        writer.close()
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(running, return_exceptions=True)
        await catalog.close()
        reading.close()


def by_command_line(folder: Path, era: str, **options: Any) -> Client:
    """The SDK's client of a workspace that `spindle serve --stdio` serves."""
    parameters = StdioServerParameters(
        command=warm.SPINDLE,
        args=["-w", str(folder), "serve", "--stdio"],
        env={**os.environ},
        cwd=str(folder),
    )
    return Client(parameters, mode=ERAS[era], **options)


@contextlib.asynccontextmanager
async def serve_command(folder: Path, *words: str) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    """`spindle serve --http` in a process of its own, told to stop in the end."""
    process = await asyncio.create_subprocess_exec(
        warm.SPINDLE, "-w", str(folder), "serve", "--http", "--port", "0", *words,
        stderr=asyncio.subprocess.PIPE, env={**os.environ},
    )  # fmt: skip
    assert process.stderr is not None
    try:
        async with asyncio.timeout(PATIENCE):
            while not (match := re.search(rb"serving MCP on (\S+)", line := await process.stderr.readline())):
                assert line, "the server ended"
        yield match[1].decode(), process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        draining = asyncio.create_task(process.stderr.read())
        async with asyncio.timeout(PATIENCE):
            await process.wait()
        await draining


def text_of(result: Any) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")
