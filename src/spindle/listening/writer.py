"""The answers of a connection on their way out: head and body in one piece, where both are there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class AnswerWriter:
    """Stands for the transport where an answer is written: first its head, then each piece of its body.
    Each write costs a call of the system, and wakes the client."""

    __slots__ = ("_call_soon", "_head", "_transport")

    def __init__(self, transport: asyncio.Transport, call_soon: Callable[..., object]) -> None:
        self._transport = transport
        self._call_soon = call_soon
        self._head = b""

    def write(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
            self._transport.write(data)
        elif data.startswith(b"HTTP/1.1 "):
            # A body follows at once, or there is one only later.
            self._head = data
            self._call_soon(self.flush)
        else:
            self._transport.write(data)

    def write_whole(self, data: bytes) -> None:
        """Writes a head and its body in one piece."""
        self.flush()
        self._transport.write(data)

    def flush(self) -> None:
        """Writes a head that no body followed."""
        if self._head:
            self.write(b"")

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()
