"""The port for links that carry messages to a server and back: its pipes, or a stream of events."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from spindle.sources.mcp.pending import Pending

EDGE = 256
"""Bytes that are kept of each end of a line that is too long: they may name the request it answers."""
TURN = 0.002
"""Seconds for which lines of one server are read before others have their turn."""
BETWEEN_TURNS = 0.008
"""Seconds between the turns of servers that send more than they have turns for, all of them together: so they
never take more than a fifth of the event loop."""


class MessageLink(Protocol):
    """Carries messages to a server and back, one at a time."""

    brought: list[Pending] | None
    """While lines are read outside of all tasks, the requests whose answers they brought: their tasks go on
    when all are read. None at other times."""

    def listen(
        self,
        on_line: Callable[[bytes], None],
        on_too_long: Callable[[bytes, bytes], None],
        on_lost: Callable[[], None],
    ) -> None:
        """Sets the receivers of lines, of the two ends of each line that is too long, and of the end of
        the link, which is reported once. Messages that came earlier are delivered now."""
        ...

    @property
    def lost(self) -> bool:
        """True if no more requests can be sent. Answers to earlier ones may still arrive."""
        ...

    async def write(self, line: bytes) -> bool:
        """False when the line was not written, because the link was lost before it could be."""
        ...

    def write_at_once(self, line: bytes, *, together: bool = False) -> bool:
        """Writes a line if that takes no waiting, `together` with others that may come in this turn of the
        event loop. Returns False if it was not written."""
        ...

    def write_now(self, line: bytes) -> None:
        """Writes a message that must go out although its writer cannot wait."""
        ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def epitaph(self) -> str:
        """The way the server ended, as the rest of a sentence about it."""
        ...


class ReadingTurns:
    """The order in which servers are read that send more than one turn takes."""

    def __init__(self) -> None:
        self._next = 0.0

    def wait(self) -> float:
        """Returns the seconds until a turn that is free, which is then taken."""
        now = time.monotonic()
        start = max(now, self._next)
        self._next = start + TURN + BETWEEN_TURNS
        return start - now


turns = ReadingTurns()
"""Those of this process."""


class LineReader:
    """Cuts a stream of bytes into lines. Of a line over the limit only the two ends are kept."""

    def __init__(
        self, limit: int, on_line: Callable[[bytes], None], on_too_long: Callable[[bytes, bytes], None]
    ) -> None:
        self.limit = limit
        self.on_line = on_line
        self._on_too_long = on_too_long
        self._buffer = bytearray()
        self._head: bytes | None = None

    def feed(self, data: bytes) -> None:
        """Reads all of `data`."""
        read = 0
        while read < len(data):
            read = self.feed_a_while(data, read)

    def feed_a_while(self, data: bytes, start: int = 0) -> int:
        """Reads `data` from `start`, for a moment: a server that sends many small lines must not keep the
        event loop from others. Returns where to go on, which is the end unless there is more to read."""
        until = time.perf_counter() + TURN
        while (end := data.find(b"\n", start)) >= 0:
            if self._buffer or end - start > self.limit:
                self._complete(data[start:end])
            else:
                self.on_line(data[start:end])
            start = end + 1
            if time.perf_counter() > until and start < len(data):
                return start
        if start < len(data):
            self._keep(data[start:])
        return len(data)

    def _complete(self, piece: bytes) -> None:
        """Takes the rest of a line of which there is more than this piece, or which may be too long."""
        if self._buffer:
            self._keep(piece)
            piece = bytes(self._buffer)
            self._buffer.clear()
        if self._head is not None:
            head, self._head = self._head, None
            self._on_too_long(head, piece[-EDGE:])
        elif len(piece) > self.limit:
            self._on_too_long(piece[:EDGE], piece[-EDGE:])
        else:
            self.on_line(piece)

    def _keep(self, piece: bytes) -> None:
        self._buffer += piece
        if self._head is None and len(self._buffer) > self.limit:
            self._head = bytes(self._buffer[:EDGE])
        if self._head is not None:
            del self._buffer[:-EDGE]
