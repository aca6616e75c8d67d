"""The messages between the client and `spindle up`: one JSON object a line, of bounded size.

A client sends what it wants done. The server answers `ready`, or `alone` if the client has to do it itself.
Only after the client's `go`, with which its standard streams come as descriptors, the command begins. A
client that does not wait any longer has not sent it: nothing is ever done twice, or held by a server that
hangs. The server's last word is `exit` with the exit code, or `alone` if it turned out, before anything
was done, that it cannot do this command. While the command runs, the client sends the signals it gets.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from typing import Any

PROTOCOL = 1
"""Raised with every change that the other side has to know of. `protocol`, `alone` and `note` stay."""
LONGEST_MESSAGE = 8_000_000

Message = dict[str, Any]


def encoded(message: Message) -> bytes:
    """A message as a line. Any text of the system can be sent: what is not UTF-8 becomes an escape."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def decoded(line: bytes) -> Message:
    """The message in a line. Raises ValueError if it is none."""
    try:
        found = json.loads(line)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return found  # pyright: ignore[reportUnknownVariableType] - of JSON


class MessageLines:
    """Cuts what arrives into lines."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def add(self, data: bytes) -> list[Message]:
        """Returns the messages that are complete. Raises ValueError for what is none, or too long."""
        self._rest += data
        if b"\n" not in data:
            self._require_short(len(self._rest))
            return []
        *lines, rest = bytes(self._rest).split(b"\n")
        self._rest = bytearray(rest)
        for line in (*lines, rest):
            self._require_short(len(line))
        return [decoded(line) for line in lines]

    def _require_short(self, length: int) -> None:
        if length > LONGEST_MESSAGE:
            raise ValueError(f"a message of more than {LONGEST_MESSAGE} bytes")


def peer_of(link: socket.socket) -> tuple[int | None, int | None]:
    """The number of the process at the other end, where the system tells it, and its user. The user is None
    where nothing is known, and then nobody may be trusted."""
    option: int | None = getattr(socket, "SO_PEERCRED", None)
    if option is not None:
        pid, uid, _ = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, option, 12))
        return pid, uid
    local: int | None = getattr(socket, "LOCAL_PEERCRED", None)
    if local is not None:  # macOS and FreeBSD: a struct xucred, which has no pid
        version, uid = struct.unpack("Ii", link.getsockopt(0, local, 76)[:8])
        return None, uid if version == 0 else None
    return None, None


def is_own(link: socket.socket) -> bool:
    """True if the process at the other end is the same user's."""
    return peer_of(link)[1] == os.getuid()
