"""A real HTTP server for all sources that speak HTTP, and made-up names for where it is."""

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from servers.echo_server import PUBLIC, EchoServer
from spindle.http import addresses


@pytest.fixture
async def echo() -> AsyncIterator[EchoServer]:
    server = EchoServer()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    server.url = f"http://127.0.0.1:{port}"
    server.public_url = f"http://{PUBLIC}:{port}"
    async with await asyncio.start_server(server.serve, PUBLIC, port):
        yield server
    listening.close()


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """The addresses of made-up hosts: the first is the answer to the first question and so on, and the
    last to all that follow. One address of this machine counts as one of somebody else's."""
    answers: dict[str, list[str]] = {}
    real, inside = socket.getaddrinfo, addresses.is_inside

    def getaddrinfo(host: Any, *args: Any, **named: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name in answers:
            host = answers[name].pop(0) if len(answers[name]) > 1 else answers[name][0]
        return real(host, *args, **named)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(addresses, "is_inside", lambda address: address != PUBLIC and inside(address))
    return answers
