"""Listening on an address until told to stop, and letting running calls end first."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from spindle.errors import ConfigurationError
from spindle.uvicorn_server import EmbeddedServer

if TYPE_CHECKING:
    from starlette.types import ASGIApp

BACKLOG = 512
# Over this many a client is told to come back later, before its request is read.
MAX_CONNECTIONS = 1000


def listen(host: str, port: int) -> socket.socket:
    """Opens the socket to listen on, or raises an error that says why it cannot."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError) as error:
        raise ConfigurationError(
            f"{host!r} is not an address of this machine: {error}", hint="see serve.host and --host"
        ) from None
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(BACKLOG)
    except OSError as error:
        opened.close()
        raise _cannot_listen(host, port, error) from None
    return opened


def address_of(listening: socket.socket, host: str) -> str:
    """The URL by which the server is reached from here."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listening.getsockname()[1]}"


async def serve(
    app: ASGIApp,
    listening: socket.socket,
    shutdown_timeout: Callable[[], float],
    stopping: Callable[[], None],
) -> None:
    """Answer requests until this task is cancelled. Then take no more, and let those that run end
    within the seconds that `shutdown_timeout` gives then."""
    server = EmbeddedServer(app, server_header=False, proxy_headers=False, limit_concurrency=MAX_CONNECTIONS)
    running = asyncio.create_task(server.serve(sockets=[listening]), name="the HTTP server")
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        stopping()
        server.stop(shutdown_timeout())
        await running
        raise


def _cannot_listen(host: str, port: int, error: OSError) -> ConfigurationError:
    if error.errno == errno.EADDRINUSE:
        return ConfigurationError(
            f"port {port} of {host} is in use by another program",
            hint="stop that program, or choose another port with --port (0 takes any free port)",
        )
    if error.errno == errno.EACCES:
        return ConfigurationError(
            f"this user may not listen on port {port} of {host}", hint="choose a port above 1023"
        )
    return ConfigurationError(
        f"cannot listen on port {port} of {host}: {error.strerror or error}",
        hint="is it an address of this machine? See serve.host and --host",
    )
