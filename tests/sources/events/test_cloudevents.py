"""Events as messages and back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.domain.event import Event
from spindle.errors import InvalidArgumentsError
from spindle.sources.events.cloudevents import decoded, encoded

EVENT = Event(type="a.b", source="urn:x", data={"n": 1}, id="7", subject="ü/é %", time="2026-01-01T00:00:00Z")


def test_structured_is_one_json_document() -> None:
    headers, body = encoded(EVENT, "structured", prefix="ce-", escaped=True)
    assert headers == {"content-type": "application/cloudevents+json"}
    assert json.loads(body) == {
        "specversion": "1.0",
        "id": "7",
        "source": "urn:x",
        "type": "a.b",
        "subject": "ü/é %",
        "time": "2026-01-01T00:00:00Z",
        "datacontenttype": "application/json",
        "data": {"n": 1},
    }


def test_binary_has_the_attributes_in_headers_and_the_data_alone() -> None:
    headers, body = encoded(EVENT, "binary", prefix="ce-", escaped=True)
    assert body == b'{"n":1}'
    assert headers["content-type"] == "application/json"
    assert headers["ce-subject"] == "%C3%BC/%C3%A9%20%25"
    assert "ce-datacontenttype" not in headers


def test_plain_is_the_data_and_nothing_else() -> None:
    assert encoded(EVENT, "plain", prefix="ce-", escaped=True) == (
        {"content-type": "application/json"},
        b'{"n":1}',
    )


def test_data_that_is_not_json_needs_an_envelope() -> None:
    event = Event(data={"a": 1}, content_type="text/plain")
    with pytest.raises(InvalidArgumentsError, match="must be text"):
        encoded(event, "binary", prefix="ce-", escaped=True)
    assert (
        encoded(Event(data="é", content_type="text/plain"), "plain", prefix="", escaped=False)[1]
        == "é".encode()
    )


words = st.text(st.characters(codec="utf-8"))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
texts = st.text(st.characters(codec="utf-8", min_codepoint=32), min_size=1, max_size=30)


@given(
    json_values, texts, texts, st.sampled_from(["structured", "binary"]), st.sampled_from(["ce-", "ce_", ""])
)
def test_what_was_sent_is_what_is_received(
    data: Any, kind: str, subject: str, envelope: Any, prefix: str
) -> None:
    event = Event(
        type=kind, source="urn:x", data=data, subject=subject, extensions={"trace": "1"}, channel="c"
    )
    headers, body = encoded(event, envelope, prefix=prefix, escaped=prefix != "")
    assert decoded(body, headers, "c", bare=prefix == "") == event


@pytest.mark.parametrize(
    ("body", "headers", "data"),
    [
        (b'{"a": 1}', {}, {"a": 1}),
        (b'{"a": 1}', {"Content-Type": "application/json"}, {"a": 1}),
        (b"not json", {}, "not json"),
        (b"[1", {"content-type": "application/json"}, "[1"),
        (b"\xff\xfe", {}, "//4="),
        (b"", {}, None),
        (b'{"specversion": "1.0"}', {}, {"specversion": "1.0"}),
        (b'"text"', {"content-type": "text/plain"}, '"text"'),
    ],
)
def test_a_message_that_is_no_event_is_taken_as_it_is(
    body: bytes, headers: dict[str, str], data: Any
) -> None:
    event = decoded(body, headers, "c")
    assert (event.data, event.type, event.id, event.channel) == (data, "", "", "c")


@given(st.binary(max_size=200), st.dictionaries(st.text(max_size=10), st.text(max_size=10), max_size=3))
def test_no_message_can_break_the_reader(body: bytes, headers: dict[str, str]) -> None:
    assert isinstance(decoded(body, headers, "c"), Event)
