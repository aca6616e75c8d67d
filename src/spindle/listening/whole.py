"""Requests and answers that are there as a whole, past the messages of ASGI: those are looked at part by
part, which costs as much as all else that is done for a short answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spindle.listening.cycle import RequestCycle, status_line

if TYPE_CHECKING:
    from starlette.types import Receive, Send


def is_own(send: Send) -> bool:
    """True if this is a connection's own, and nobody adds to what is sent or counts it."""
    return isinstance(getattr(send, "__self__", None), RequestCycle)


def sent_whole(send: Send, status: int, head: bytes, body: bytes) -> bool:
    """Sends a whole answer to a POST, if its connection is ready for it. Returns False if it has to go by
    `send`: also where that is not the connection's own, but somebody's who adds to answers or counts them.
    `head` is lines of headers of ours, without the length."""
    cycle = getattr(send, "__self__", None)
    if not isinstance(cycle, RequestCycle) or cycle.response_started or cycle.disconnected:
        return False
    if not cycle.keep_alive or cycle.flow.write_paused:
        return False
    first = status_line(status) + cycle.state.usual_lines
    cycle.writer.write_whole(b"%b%bcontent-length: %d\r\n\r\n%b" % (first, head, len(body), body))
    cycle.ended()
    return True


def whole_body(receive: Receive, limit: int) -> bytes | None:
    """The body of a request that came as a whole, without waiting. None if it has to be received."""
    cycle = getattr(receive, "__self__", None)
    if not isinstance(cycle, RequestCycle) or cycle.more_body or cycle.disconnected:
        return None
    if len(cycle.body) > limit:
        return None
    body = bytes(cycle.body)
    cycle.body = bytearray()
    cycle.message_event.clear()
    return body
