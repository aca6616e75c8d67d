"""Events of a stream, and the ids by which clients name the last that they got (`Last-Event-ID`).

An id says which process has the stream, so that any other can ask it, and which request it answers, so that
a client gets an answer also where nobody knows of it any more. It is no secret and proves nothing: whatever
is found by it must belong to the session of the client that shows it.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Final, NamedTuple

from spindle.domain.json_schema import JsonObject, from_json, to_json

if TYPE_CHECKING:
    from spindle.mcp_protocol.errors import RequestId

NOTICES: Final = "n"
"""The name of the stream outside of any request."""
FIRST_VERSION_WITH_PRIMERS: Final = "2025-11-25"
MAX_EVENT_ID: Final = 500
_MAX_REQUEST_ID: Final = 300


class EventId(NamedTuple):
    """The place of an event: its process, its stream there, and its number in that."""

    process: str
    stream: str
    number: int
    request: RequestId | None = None
    """The request that the stream answers, if its id is not too long."""

    def text(self) -> str:
        shown = f"{self.process}.{self.stream}.{self.number}"
        if self.request is None:
            return shown
        mark = to_json(self.request)
        if len(mark) > _MAX_REQUEST_ID:
            return shown
        return f"{shown}.{urlsafe_b64encode(mark).rstrip(b'=').decode()}"


def read_event_id(text: str) -> EventId | None:
    """The place that an id names; None if it is none of ours."""
    process, *rest = text[: MAX_EVENT_ID + 1].split(".")
    if len(text) > MAX_EVENT_ID or not process.isalnum() or not 2 <= len(rest) <= 3:
        return None
    stream, number = rest[:2]
    if not stream.isalnum() or not (number.isascii() and number.isdigit()):
        return None
    request: RequestId | None = None
    if len(rest) == 3:
        try:
            found = from_json(urlsafe_b64decode(rest[2].encode("ascii") + b"=" * (-len(rest[2]) % 4)))
        except ValueError:
            return None
        if isinstance(found, bool) or not isinstance(found, (str, int)):
            return None
        request = found
    return EventId(process, stream, int(number), request)


def event(message: JsonObject, place: EventId) -> bytes:
    """A message as an event at this place."""
    return b"event: message\nid: " + place.text().encode() + b"\ndata: " + to_json(message) + b"\n\n"


def primer(place: EventId) -> bytes:
    """An event that only says where a client can go on from."""
    return b"id: " + place.text().encode() + b"\ndata: \n\n"
