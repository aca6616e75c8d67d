"""uvicorn inside a program that keeps its own signals, on our own sockets and connections."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import os
import socket
from collections.abc import AsyncGenerator, Callable, Generator
from typing import TYPE_CHECKING, Any

import uvicorn

from spindle.errors import ConfigurationError
from spindle.listening.connections import OpenConnections
from spindle.listening.limits import BACKLOG, ConnectionLimits
from spindle.listening.protocol import HttpConnection

if TYPE_CHECKING:
    import ssl

    from starlette.types import ASGIApp

AS_USUAL = ConnectionLimits()


class EmbeddedServer(uvicorn.Server):
    """Serves an application over sockets that are open already, and is stopped by its program."""

    def __init__(
        self,
        app: ASGIApp,
        limits: Callable[[], ConnectionLimits] = lambda: AS_USUAL,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`limits` is asked again and again: they may change while it serves."""
        self.connections = OpenConnections(limits)
        options: dict[str, Any] = {
            "http": functools.partial(HttpConnection, self.connections),
            "ws": "none",
            "lifespan": "off",
            "server_header": False,
            "proxy_headers": False,
            "backlog": BACKLOG,
            "log_config": None,
            "log_level": "critical",
            "access_log": False,
        }
        if tls is not None:

            def given(_config: uvicorn.Config, _default: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
                return tls

            options["ssl_context_factory"] = given
        super().__init__(uvicorn.Config(app, **options))

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leaves signals alone: Ctrl-C belongs to the program, which calls `stop`."""
        yield

    async def on_tick(self, counter: int) -> bool:
        """Called ten times a second, for as long as it serves."""
        self.connections.tick(asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    def stop(self, seconds: float) -> None:
        """Takes no more requests, and lets those that run end within these seconds. `serve` returns then."""
        self.config.timeout_graceful_shutdown = max(1, round(seconds)) if seconds else 0
        self.should_exit = True


def open_socket(host: str, port: int) -> socket.socket:
    """Opens a socket to listen on; OSError or UnicodeError says why it cannot."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
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
