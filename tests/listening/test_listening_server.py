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
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

import spindle
from servers.running import PATIENCE
from spindle.listening.protocol import HttpConnection
from spindle.listening.server import EmbeddedServer

VERSION = importlib.metadata.version("uvicorn")
OVERRIDDEN = {
    "connection_made", "connection_lost", "data_received", "eof_received", "pause_writing", "resume_writing",
    "on_message_begin", "on_header", "on_headers_complete", "on_body", "on_message_complete",
    "on_response_complete", "_start_asgi_task", "shutdown",
}  # fmt: skip


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


def test_uvicorn_has_what_is_leaned_on() -> None:
    serving = inspect.getsource(uvicorn.Server.serve)
    assert "self.capture_signals()" in serving, (
        f"uvicorn {VERSION} takes the program's signals in another way than by Server.capture_signals()"
    )
    server = inspect.getsource(uvicorn.Server)
    for name in ("self.should_exit", "self.config.timeout_graceful_shutdown", "await self.on_tick(counter)"):
        assert name in server, f"uvicorn {VERSION} does not look at {name} any more, by which it is stopped"


def test_the_protocol_has_what_is_leaned_on() -> None:
    missing = OVERRIDDEN - vars(HttpToolsProtocol).keys()
    assert not missing, f"uvicorn {VERSION} does not have {missing} any more"
    assert vars(HttpConnection).keys() >= OVERRIDDEN
    ours = inspect.signature(HttpToolsProtocol.__init__).parameters
    assert list(ours) == ["self", "config", "server_state", "app_state", "_loop"], f"uvicorn {VERSION}"
    made = inspect.getsource(HttpToolsProtocol.connection_made)
    for name in ("connections", "transport", "flow", "server", "client", "scheme"):
        assert f"self.{name}" in made, f"uvicorn {VERSION} does not set {name} any more, as we do"
    ending = inspect.getsource(HttpToolsProtocol.on_response_complete)
    for line in ("total_requests += 1", "self.flow.resume_reading()", "self.pipeline.pop()"):
        assert line in ending, f"uvicorn {VERSION} ends an answer in another way than we do"
    cycle = inspect.getsource(RequestResponseCycle)
    for name in (
        "disconnected",
        "message_event",
        "response_complete",
        "response_started",
        "keep_alive",
        "body",
        "more_body",
        "default_headers",
        "waiting_for_100_continue",
        "on_response",
    ):
        assert f"self.{name}" in cycle, f"uvicorn {VERSION} has no {name} of a request"


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
    assert sorted(file.name for file in files) == ["again.py", "protocol.py", "server.py", "whole.py"]
