"""The state that all connections of one server share."""

from __future__ import annotations

import asyncio
import time
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.types import ASGIApp


class ServerState:
    """The application, the connections that are open, and the requests that are answered."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.connections: set[Any] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.usual_lines = b""
        """The lines that the head of every answer begins with."""
        self._second: float = 0

    def tick(self) -> None:
        """Says the time of day in answers anew, once a second."""
        now = time.time() // 1
        if now != self._second:
            self._second = now
            self.usual_lines = b"date: %b\r\n" % formatdate(now, usegmt=True).encode()
