"""A server over HTTP/1 inside a program, on sockets that it is given."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TYPE_CHECKING, Any

from spindle.errors import ConfigurationError
from spindle.listening.connections import OpenConnections
from spindle.listening.limits import BACKLOG, ConnectionLimits
from spindle.listening.protocol import HttpConnection
from spindle.listening.state import ServerState

if TYPE_CHECKING:
    import ssl

    from starlette.types import ASGIApp

AS_USUAL = ConnectionLimits()
TICK = 0.1
"""Seconds between two looks at the clock, and at whether it is time to stop."""


class EmbeddedServer:
    """Serves an application over sockets that are open already, inside a program that keeps its own signals
    and says when to stop."""

    def __init__(
        self,
        app: ASGIApp,
        limits: Callable[[], ConnectionLimits] = lambda: AS_USUAL,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`limits` is asked again and again: they may change while it serves."""
        self.connections = OpenConnections(limits)
        self.state = ServerState(app)
        self.listening: list[asyncio.Server] = []
        self._tls = tls
        self._grace: float | None = None
        """Seconds that running requests may take to end; None until it is told to stop."""

    def stop(self, seconds: float) -> None:
        """Takes no more requests, and lets those that run end within these seconds. `serve` returns then."""
        self._grace = seconds

    async def serve(self, sockets: Sequence[socket.socket]) -> None:
        """Answers requests until `stop` is called."""
        loop = asyncio.get_running_loop()
        self.state.tick()
        self.listening = [
            await loop.create_server(self._connection, sock=one, ssl=self._tls, backlog=BACKLOG)
            for one in sockets
        ]
        while self._grace is None:
            self.state.tick()
            self.connections.tick(loop.time())
            await asyncio.sleep(TICK)
        for server in self.listening:
            server.close()
        for one in sockets:
            one.close()
        for connection in list(self.state.connections):
            connection.shutdown()
        await asyncio.sleep(TICK)  # connections that had nothing to do are closed by now
        try:
            async with asyncio.timeout(self._grace):
                while self.state.connections or self.state.tasks:  # noqa: ASYNC110 - once, at the end
                    await asyncio.sleep(TICK)
        except TimeoutError:
            for task in self.state.tasks:
                task.cancel()

    def _connection(self) -> HttpConnection:
        return HttpConnection(self.connections, self.state)


def open_socket(host: str, port: int) -> socket.socket:
    """Opens a socket to listen on; OSError or UnicodeError says why it cannot."""
    # Given as text, even an address would have Python load what other names need, a third of a megabyte.
    name = host.encode() if host.isascii() else host
    family, kind, protocol, _, address = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)[0]
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(BACKLOG)
    except OSError:
        opened.close()
        raise
    return opened


def listen(host: str, port: int) -> socket.socket:
    """Opens the socket to serve on, or raises an error that says why it cannot and what to change."""
    try:
        return open_socket(host, port)
    except (socket.gaierror, UnicodeError) as error:
        raise ConfigurationError(
            f"{host!r} is not an address of this machine: {error}", hint="see serve.host and --host"
        ) from None
    except OSError as error:
        raise _cannot_listen(host, port, error) from None


def address_of(listening: socket.socket, host: str, scheme: str = "http") -> str:
    """The URL by which the server is reached from here; of a Unix socket, its path."""
    place: Any = listening.getsockname()
    if listening.family == socket.AF_UNIX:
        return f"unix:{os.fsdecode(place) or 'unnamed'}"
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}:{place[1]}"


@contextlib.asynccontextmanager
async def answering(app: ASGIApp, listening: socket.socket, grace: float) -> AsyncGenerator[None]:
    """Answers requests in the background for as long as this lasts; those that run then may take `grace`
    seconds to end."""
    server = EmbeddedServer(app)
    running = asyncio.create_task(server.serve(sockets=[listening]), name="the HTTP server")
    try:
        yield
    finally:
        server.stop(grace)
        await running


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
