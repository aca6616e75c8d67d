"""The insides of uvicorn that the embedded server leans on."""

from __future__ import annotations

import asyncio
import importlib.metadata
import inspect
import re
import signal
import socket
from pathlib import Path
from typing import Any

import uvicorn

import spindle
from servers.running import PATIENCE
from spindle.uvicorn_server import EmbeddedServer

VERSION = importlib.metadata.version("uvicorn")


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


def test_uvicorn_has_what_is_leaned_on() -> None:
    serving = inspect.getsource(uvicorn.Server.serve)
    assert "self.capture_signals()" in serving, (
        f"uvicorn {VERSION} takes the program's signals in another way than by Server.capture_signals()"
    )
    server = inspect.getsource(uvicorn.Server)
    for name in ("self.should_exit", "self.config.timeout_graceful_shutdown"):
        assert name in server, f"uvicorn {VERSION} does not look at {name} any more, by which it is stopped"


async def test_it_leaves_signals_alone_serves_and_stops_when_told() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    server = EmbeddedServer(hello)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        running = asyncio.create_task(server.serve(sockets=[listening]))
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection(*listening.getsockname())
            writer.write(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            assert (await reader.read()).endswith(b"hello\r\n0\r\n\r\n")
            writer.close()
            assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
            server.stop(1)
            await running


def test_nothing_else_imports_uvicorn() -> None:
    importing = re.compile(r"^\s*(from|import) uvicorn\b", re.MULTILINE)
    folder = Path(spindle.__file__).parent
    files = [file for file in folder.rglob("*.py") if importing.search(file.read_text("utf-8"))]
    assert [file.name for file in files] == ["uvicorn_server.py"]
