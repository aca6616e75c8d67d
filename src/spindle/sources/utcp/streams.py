"""Answers that come in pieces: event streams and streamed HTTP, collected into one result."""

from __future__ import annotations

import codecs
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from spindle.domain.call import Block, Result
from spindle.domain.json_schema import from_json
from spindle.http.bodies import body_kind

LINES = frozenset(
    {"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event of a stream; `data` is None where it only carries an id or a time to wait."""

    type: str
    data: str | None
    id: str | None = None
    retry: int | None = None
    """Milliseconds."""


async def events(chunks: AsyncIterator[bytes]) -> AsyncIterator[StreamEvent]:
    """The events of an event stream. An event cut off by the end of the stream is dropped, as the standard
    says."""
    fields: list[tuple[str, str]] = []
    async for line in lines(chunks):
        if not line:
            if fields:
                yield _event(fields)
            fields = []
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            fields.append((name, value.removeprefix(" ")))


def _event(fields: list[tuple[str, str]]) -> StreamEvent:
    data = [value for name, value in fields if name == "data"]
    named = dict(fields)
    waits = named.get("retry", "")
    identity = named.get("id")
    return StreamEvent(
        named.get("event") or "message",
        "\n".join(data) if data else None,
        identity if identity is not None and "\0" not in identity else None,
        int(waits) if waits.isascii() and waits.isdigit() and len(waits) < 10 else None,
    )


async def lines(chunks: AsyncIterator[bytes], *, with_rest: bool = False) -> AsyncIterator[str]:
    """The lines of a stream, with any line ending and cut anywhere; at last, the rest without an ending."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    waiting: list[str] = []
    is_first, ended_by_return = True, False
    async for chunk in chunks:
        text = decoder.decode(chunk)
        if is_first and text:
            text, is_first = text.removeprefix("\ufeff"), False
        if ended_by_return and text:
            # The second half of a line's end that was cut in two.
            text, ended_by_return = text.removeprefix("\n"), False
        if text.endswith("\r"):
            ended_by_return = True
        *whole, rest = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for line in whole:
            yield "".join([*waiting, line])
            waiting.clear()
        if rest:
            waiting.append(rest)
    if with_rest and waiting:
        yield "".join(waiting)


def item_of(data: str) -> Any:
    """The item as JSON if it can be parsed, else as text."""
    try:
        return from_json(data.encode())
    except ValueError:
        return data


def collected(items: list[Any]) -> Result:
    """The result that holds all items of a stream."""
    return Result.of_value(items)


def whole(media_type: str, body: bytes) -> Result:
    """The result for a stream of a single piece."""
    if body_kind(media_type) in ("text", "xml", "form"):
        return Result((Block("text", text=body.decode("utf-8", "replace"), mime_type=media_type),))
    return Result((Block.of_bytes(body, media_type or "application/octet-stream"),))
