"""Streams of events, however they arrive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.http.failures import TooLargeError
from spindle.sources.mcp.events import SentEvent, only_message, read_events


def read(data: bytes, sizes: list[int], limit: int = 1000) -> list[SentEvent]:
    """The events in data that comes in pieces of these sizes."""

    async def chunks() -> AsyncIterator[bytes]:
        rest = data
        for size in sizes:
            yield rest[:size]
            rest = rest[size:]
        yield rest

    async def main() -> list[SentEvent]:
        return [event async for event in read_events(chunks(), limit)]

    return asyncio.run(main())


texts = st.lists(
    st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=20),
    min_size=1,
    max_size=3,
)


@given(
    st.lists(texts, max_size=5),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.lists(st.integers(min_value=0, max_value=9), max_size=40),
)
def test_events_are_the_same_however_they_are_cut(
    events: list[list[str]], end: bytes, sizes: list[int]
) -> None:
    data = b"".join(b"".join(b"data: " + text.encode() + end for text in event) + end for event in events)
    found = read(data, sizes)
    assert [event.data for event in found] == ["\n".join(event).encode() for event in events]


def test_an_event_says_from_where_and_when_to_go_on() -> None:
    stream = b"\xef\xbb\xbf: hello\n\nid: 7\nretry: 250\ndata:\n\nevent: other\ndata:x\n\n"
    stream += b"retry: soon\n\nid: a\0b\n\n"
    first, second = read(stream, [])
    assert first == SentEvent(b"message", b"", "7", 0.25)
    assert second == SentEvent(b"other", b"x", None, None)


@pytest.mark.parametrize("stream", [b"data: " + b"x" * 2000, b"data: " + b"x" * 2000 + b"\n\n"])
def test_an_event_over_the_limit_ends_the_stream(stream: bytes) -> None:
    with pytest.raises(TooLargeError):
        read(b"data: 1\n\n" + stream, [500] * 5)


def test_what_is_not_complete_is_no_event() -> None:
    assert read(b"data: 1\n\ndata: 2\n", []) == [SentEvent(b"message", b"1", None, None)]


@given(
    st.lists(
        st.sampled_from(
            [
                b"data: {}",
                b"data:x",
                b"event: message",
                b"event: other",
                b"id: 1",
                b"id: \0",
                b": hi",
                b"retry: 1",
            ]
        ),
        max_size=5,
    ),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.sampled_from([b"", b"data: 2\n\n", b"data: 2", b"\n"]),
)
def test_a_message_that_is_alone_is_the_one_that_is_read(lines: list[bytes], end: bytes, rest: bytes) -> None:
    stream = b"".join(line + end for line in lines) + end + rest
    alone = only_message(stream)
    found = [event for event in read(stream, []) if event.data or event.name != b"message"]
    assert alone is None or [(event.name, event.data) for event in found] == [(b"message", alone)]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("before", ["", "event: message", "id: 7", "event: message{}id: 7"])
def test_a_message_that_is_alone_is_seen_to_be(before: str, end: str) -> None:
    lines = [*before.format(end).split(end), "data: {}"] if before else ["data: {}"]
    assert only_message(end.join([*lines, "", ""]).encode()) == b"{}"
