"""The side of a service that systemd sees: sockets that it opened for us, and how we are."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncGenerator, Mapping
from typing import Final

from spindle.errors import ConfigurationError

FIRST: Final = 3
"""The descriptor of the first socket that is handed over."""


def inherited_socket(environ: Mapping[str, str] = os.environ) -> socket.socket | None:
    """Returns the socket that systemd listens on for this process, if it does."""
    if environ.get("LISTEN_PID") != str(os.getpid()):
        return None
    count = environ.get("LISTEN_FDS", "0")
    if count != "1":
        raise ConfigurationError(
            f"systemd hands over {count} sockets", hint="one ListenStream= in the socket unit"
        )
    try:
        os.set_inheritable(FIRST, False)  # programs that we start have no business with it
        return socket.socket(fileno=FIRST)
    except OSError as error:
        raise ConfigurationError(f"what systemd handed over is no socket: {error.strerror}") from None


class ServiceManager:
    """Tells systemd, or another that listens on NOTIFY_SOCKET, how this service is."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        place = environ.get("NOTIFY_SOCKET", "")
        self._place = f"\0{place[1:]}" if place.startswith("@") else place
        for_us = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        wanted = environ.get("WATCHDOG_USEC", "")
        self.watchdog = int(wanted) / 1_000_000 if for_us and wanted.isdecimal() and int(wanted) else None
        """Seconds within which it wants to hear of us."""

    def tell(self, *lines: str) -> None:
        """Sends a message, if anybody listens."""
        if not self._place:
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
            link.setblocking(False)
            link.sendto("\n".join(lines).encode(), self._place)

    def ready(self, status: str) -> None:
        """Says that requests are answered."""
        self.tell("READY=1", f"STATUS={status}")

    def reloading(self) -> None:
        """Says that the settings are read again; `ready` ends that."""
        self.tell("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    @contextlib.asynccontextmanager
    async def told(self, status: str) -> AsyncGenerator[None]:
        """Says that the service is ready, that it lives, and in the end that it stops."""
        self.ready(status)
        living = asyncio.create_task(self._live(), name="signs of life to systemd")
        try:
            yield
        finally:
            living.cancel()
            self.tell("STOPPING=1")

    async def _live(self) -> None:
        while self.watchdog is not None and self._place:
            self.tell("WATCHDOG=1")
            await asyncio.sleep(self.watchdog / 3)
