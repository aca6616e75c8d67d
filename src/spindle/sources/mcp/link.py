"""The port for links that carry messages to a server and back: its pipes, or a stream of events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

EDGE = 256
"""Bytes that are kept of each end of a line that is too long: they may name the request it answers."""


class MessageLink(Protocol):
    """Carries messages to a server and back, one at a time."""

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

    def write_now(self, line: bytes) -> None:
        """Writes a message that must go out although its writer cannot wait."""
        ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def epitaph(self) -> str:
        """The way the server ended, as the rest of a sentence about it."""
        ...


class LineReader:
    """Cuts a stream of bytes into lines. Of a line over the limit only the two ends are kept."""

    def __init__(
        self, limit: int, on_line: Callable[[bytes], None], on_too_long: Callable[[bytes, bytes], None]
    ) -> None:
        self.limit = limit
        self._on_line = on_line
        self._on_too_long = on_too_long
        self._buffer = bytearray()
        self._head: bytes | None = None

    def feed(self, data: bytes) -> None:
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._complete(data[start:end])
            start = end + 1
        if start < len(data):
            self._keep(data[start:])

    def _complete(self, piece: bytes) -> None:
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
            self._on_line(piece)

    def _keep(self, piece: bytes) -> None:
        self._buffer += piece
        if self._head is None and len(self._buffer) > self.limit:
            self._head = bytes(self._buffer[:EDGE])
        if self._head is not None:
            del self._buffer[:-EDGE]
