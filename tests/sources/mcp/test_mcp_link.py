"""Cutting bytes into lines, however they arrive."""

from __future__ import annotations

import asyncio
import contextlib

from hypothesis import given
from hypothesis import strategies as st

from spindle.domain.identity import NO_CREDENTIAL
from spindle.sources.mcp.config import McpConfig
from spindle.sources.mcp.legacy_sse import SseLink
from spindle.sources.mcp.link import EDGE, LineReader
from spindle.sources.mcp.session_http import SessionHttp


def session_http() -> SessionHttp:
    return SessionHttp("s", McpConfig(url="http://server/sse"), NO_CREDENTIAL)


def cut(data: bytes, chunks: list[int], limit: int) -> list[tuple[bytes, ...]]:
    """What a reader makes of the data when it comes in pieces of these sizes."""
    found: list[tuple[bytes, ...]] = []
    reader = LineReader(limit, lambda line: found.append((line,)), lambda *ends: found.append(ends))
    rest = data
    for size in chunks:
        reader.feed(rest[:size])
        rest = rest[size:]
    reader.feed(rest)
    return found


lines = st.lists(st.binary(max_size=3 * EDGE).map(lambda line: line.replace(b"\n", b"")), max_size=8)
chunks = st.lists(st.integers(min_value=0, max_value=700), max_size=40)


@given(lines, chunks)
def test_lines_are_the_same_however_the_bytes_arrive(lines: list[bytes], chunks: list[int]) -> None:
    data = b"".join(line + b"\n" for line in lines)
    assert cut(data, chunks, limit=10_000) == [(line,) for line in lines]


@given(lines, chunks, st.integers(min_value=1, max_value=3 * EDGE))
def test_of_a_line_over_the_limit_both_ends_are_kept(
    lines: list[bytes], chunks: list[int], limit: int
) -> None:
    data = b"".join(line + b"\n" for line in lines)
    expected = [(line,) if len(line) <= limit else (line[:EDGE], line[-EDGE:]) for line in lines]
    found = cut(data, chunks, limit)
    assert [item[-1] for item in found] == [item[-1] for item in expected]
    assert [len(item) for item in found] == [len(item) for item in expected]
    # The head may be shorter where the limit is: a line is given up as soon as it is over it.
    for item, whole in zip(found, expected, strict=True):
        assert whole[0].startswith(item[0])
        assert len(item[0]) >= min(len(whole[0]), limit)


def test_a_line_without_end_takes_little_memory() -> None:
    reader = LineReader(1000, lambda _line: None, lambda _head, _tail: None)
    for _ in range(1000):
        reader.feed(b"x" * 1000)
    assert len(reader._buffer) <= EDGE


def events(data: bytes, chunks: list[int], limit: int = 10_000) -> list[tuple[bytes, ...]]:
    """The messages that a stream of events carries."""

    async def read() -> list[tuple[bytes, ...]]:
        found: list[tuple[bytes, ...]] = []
        async with contextlib.aclosing(session_http()) as http:
            link = SseLink(http, "http://server/sse", limit)
            link.listen(lambda line: found.append((line,)), lambda *ends: found.append(ends), lambda: None)
            rest = data
            for size in chunks:
                link._reader.feed(rest[:size])
                rest = rest[size:]
            link._reader.feed(rest)
            link._fail(RuntimeError("over"))  # type: ignore[arg-type]
        return found

    return asyncio.run(read())


def test_a_stream_of_events_is_read_as_the_standard_says() -> None:
    data = (
        b": a comment\r\n"
        b"event: message\r\ndata: one\r\n\r\n"
        b"id: 7\ndata:two\n\n"
        b"data: three\ndata: lines\ndata: here\n\n"
        b"event: other\nretry: 10\n\n"
        b"data\n\n"
        b"data: never ended"
    )
    for size in (1, 2, 3, 7, 1000):
        found = events(data, [size] * len(data))
        assert found == [(b"one",), (b"two",), (b"three\nlines\nhere",)]


def test_an_event_over_the_limit_is_dropped_and_the_next_is_read() -> None:
    long = b'data: {"id":1,' + b"x" * 500 + b"}\n\n"
    in_lines = b'data: {"id":2,\n' + b"data: xxxxxxxxxxxxxxxxxxx\n" * 30 + b"data: }\n\n"
    found = events(long + in_lines + b"data: next\n\n", [10] * 100, limit=300)
    assert found[0][0].strip().startswith(b'{"id":1')
    assert found[1][0].startswith(b'{"id":2')
    assert found[-1] == (b"next",)


def test_where_to_post_is_said_once() -> None:
    async def read() -> list[str]:
        async with contextlib.aclosing(session_http()) as http:
            link = SseLink(http, "http://server/sse?key=1", 1000)
            link._reader.feed(b"event: endpoint\ndata: /post?session=1\n\n")
            link._reader.feed(b"event: endpoint\ndata: /elsewhere\n\n")
            await link.endpoint()
            return [link._endpoint.result()]

    assert asyncio.run(read()) == ["http://server/post?session=1"]


def test_many_small_lines_are_read_in_turns_and_none_is_lost() -> None:
    lines: list[bytes] = []
    reader = LineReader(100, lines.append, lambda _head, _tail: None)
    data = b"{\n" * 200_000 + b"rest"
    turns, read = 0, 0
    while read < len(data):
        read = reader.feed_a_while(data, read)
        turns += 1
    reader.feed(b" of it\n")
    assert turns > 1
    assert lines == [b"{"] * 200_000 + [b"rest of it"]
    whole: list[bytes] = []
    LineReader(100, whole.append, lambda _head, _tail: None).feed(data + b" of it\n")
    assert whole == lines
