"""The state that all connections of one server share."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_DAYS: Final = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
_MONTHS: Final = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


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
            self.usual_lines = b"date: %b\r\n" % http_date(now).encode()


def http_date(at: float) -> str:
    """Returns a time as HTTP has it. The library for that is one for mail, which a server has no other use
    for; `strftime` has words of its own in other languages."""
    time_of_day = time.gmtime(at)
    day, month = _DAYS[time_of_day.tm_wday], _MONTHS[time_of_day.tm_mon - 1]
    return time.strftime(f"{day}, %d {month} %Y %H:%M:%S GMT", time_of_day)
