"""Streams of server-sent events, read as they come. Each event has a limit; a stream may go on for days."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterable
from dataclasses import dataclass

from spindle.http.failures import TooLargeError
from spindle.sources.mcp.link import TURN, turns

_MARK = b"\xef\xbb\xbf"
"""The mark of an encoding that some servers begin with."""


_ONLY = re.compile(
    rb"(?:event: message\r?\n)?(?:id: [^\r\n\0]*\r?\n)?data: ([^\r\n]*)\r?\n(?:id: [^\r\n\0]*\r?\n)?\r?\n"
)


@dataclass(frozen=True, slots=True)
class SentEvent:
    """One event of a stream."""

    name: bytes
    data: bytes
    id: str | None
    """The place in the stream from which it can be gone on with."""
    retry: float | None
    """Seconds to wait before that."""


def only_message(stream: bytes) -> bytes | None:
    """The data of the one message that a stream begins and perhaps ends with, as nearly all do that answer a
    call; None where there is more in it, or less."""
    found = _ONLY.fullmatch(stream)
    return found[1] if found is not None else None


async def read_events(chunks: AsyncIterable[bytes], limit: int) -> AsyncGenerator[SentEvent]:
    """The events of a stream. Raises TooLargeError for one of more than `limit` bytes. A server that sends
    many of them does not keep the event loop from others."""
    buffer, searched, is_first, after_return = bytearray(), 0, True, False
    async for chunk in chunks:
        if is_first:
            chunk, is_first = chunk.removeprefix(_MARK), False
        if after_return and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        after_return = chunk.endswith(b"\r")
        # Lines may end in each of three ways.
        buffer += chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in chunk else chunk
        start, until = 0, time.perf_counter() + TURN
        while (end := buffer.find(b"\n\n", searched)) >= 0:
            event = _event(bytes(buffer[start:end])) if end - start <= limit else None
            if event is None and end - start > limit:
                raise TooLargeError(limit, 0)
            start = searched = end + 2
            if event is not None:
                yield event
            if time.perf_counter() > until:
                await asyncio.sleep(turns.wait())
                until = time.perf_counter() + TURN
        del buffer[:start]
        searched = max(0, len(buffer) - 1)
        if len(buffer) > limit:
            raise TooLargeError(limit, 0)


def _event(block: bytes) -> SentEvent | None:
    """The event in a block of lines; None where there is none, as in those that keep a connection open."""
    name, data, place, retry = b"message", list[bytes](), None, None
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
        elif field == b"id" and b"\0" not in value:
            place = value.decode("utf-8", "replace")
        elif field == b"retry" and value.isdigit() and len(value) < 10:
            retry = int(value) / 1000
    if not data and place is None and retry is None:
        return None
    return SentEvent(name, data[0] if len(data) == 1 else b"\n".join(data), place, retry)
