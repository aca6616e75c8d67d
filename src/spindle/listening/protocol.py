"""One connection over HTTP/1, within its limits: careful with everybody."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import TYPE_CHECKING, Never

import httptools

from spindle.listening.again import RepeatingConnection
from spindle.listening.ambiguity import ambiguity_of
from spindle.listening.connections import CONNECTION
from spindle.listening.cycle import status_line

if TYPE_CHECKING:
    from spindle.listening.connections import OpenConnections, Queue
    from spindle.listening.state import ServerState

BUFFERED = 16 * 1024
"""Bytes of a body that are held before the application asks for them."""
MOST_PIPELINED = 8
"""Requests that may wait on a connection while one is answered."""
SPARSE = 8
"""Bytes that may come for each byte of a body: a chunk of one byte takes six."""
SLOWEST = 1024
"""Bytes that a client must read in a second, where we wait for it."""
DRAINED = 4
"""Times the size of a body that we would take: as much is thrown away of one that is answered already,
because a client that cannot send all may never read the answer."""
LEAST_DRAINED = 16 * 1024 * 1024
"""The same in bytes, where a body may be small."""
MOST_WASTED = 256 * 1024
"""Bytes of a refused client that are thrown away, so that it can read the answer before it is cut off."""


_AT_ONCE = struct.pack("ii", 1, 0)


# The part of a request that we are in. Not an Enum: they are looked at for each header.
_BETWEEN, _HEAD, _BODY = range(3)


class _RefusedRequestError(Exception):
    """Ends the parser's work, after the reason was noted."""


class HttpConnection(RepeatingConnection):
    """Counts and dates what comes, and refuses what is too much, too slow or can be read in two ways."""

    def __init__(self, door: OpenConnections, state: ServerState) -> None:
        super().__init__(state)
        self.known = False
        self.number = 0
        self.admitted: object | None = None
        self._door = door
        self._queue: Queue | None = None
        self._reading = _BETWEEN
        self._unread = 0
        """Bytes that came for a header that is not complete."""
        self._split = False
        """True if the header began among the bytes of another request, which were not counted."""
        self._most_headers = 0
        self._body_size = 0
        self._body_came = 0
        """Bytes that came for a body, with what stands between its chunks."""
        self._refusal = (400, "this is not HTTP/1.1")
        self._deaf = False
        """True if nothing that comes is read any more."""
        self._wasted = 0
        self._unsent = 0

    # --- as those see it who decide which connections stay

    @property
    def host(self) -> str:
        return self.client[0] if self.client is not None else ""

    def fileno(self) -> int:
        found = self.transport.get_extra_info("socket")
        return -1 if found is None else found.fileno()

    def drop(self) -> None:
        """Closes at once; what was not sent is lost."""
        unread = self._queue is self._door.stalled
        self._move(None)
        found = self.transport.get_extra_info("socket") if unread else None
        if found is not None:
            # Otherwise the system would go on to offer what nobody reads.
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self.transport.abort()

    def expire(self) -> str | None:
        """Ends the connection, whose time is over; the reason, where somebody should know."""
        queue, door = self._queue, self._door
        if queue is door.bodies:
            self.refuse(408, f"the body did not come within {door.limits.body_timeout:g} s")
            return "did not send their body in time"
        if queue is door.heads:
            if self._reading == _HEAD:
                self.refuse(408, f"the header did not come within {door.limits.header_timeout:g} s")
            else:
                self._close()
            return "did not send their header in time"
        if queue is door.stalled:
            unsent = self.transport.get_write_buffer_size()
            if self._unsent - unsent >= SLOWEST * door.limits.send_timeout:
                self._move(None)
                self._settle()
                return None
            self.drop()
            return "did not read their answer"
        if queue is door.leaving:
            self.drop()
        else:
            self._close()
        return None

    def refuse(self, status: int, reason: str) -> None:
        """Answers with an error, unless another answer has begun, and reads no more."""
        if self._deaf or self.transport.is_closing():
            return
        self._deaf = True
        running = self.running
        if running is None or running.response_complete:
            answers = self._reading != _BODY  # else it has its answer, and goes on sending
        else:
            # Where an earlier request is at work, an answer would be taken for that one's.
            answers = running is self.cycle and not running.response_started
        self._left()
        if answers:
            self.transport.write(self._answer(status, reason))
        elif running is not None and not running.response_complete:
            self.drop()
            return
        self._end_after_reading()

    # --- the event loop's

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._settle()
        self._door.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._move(None)
        self._door.leave(self)
        self._left()
        super().connection_lost(exc)
        self.head.forget()
        # Without a circle the memory is free at once, also when thousands come and go.
        self.scope.pop(CONNECTION, None)
        self.cycle = self.running = None

    def eof_received(self) -> None:
        # A client that is done with sending is taken for one that left.
        self._close()

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            self._wasted += len(data)
            if self._wasted > MOST_WASTED:
                self.drop()
            return
        if self._reading == _BETWEEN and not self._unread and self.head.takes(self, data):
            return
        limit = self._door.limits.header_size
        if len(data) <= limit or self._reading == _BODY:
            self._feed(data, limit)
        else:
            # The parser would go through all of it before anybody could count.
            view = memoryview(data)
            for start in range(0, len(view), limit):
                self._feed(view[start : start + limit], limit)
                if self._deaf:
                    break
        self._settle()

    def shutdown(self) -> None:
        """Ends the connection when its request is answered; at once if it has not even come."""
        if self._queue is self._door.bodies:
            self.refuse(503, "the server is stopping")
        if self._deaf and self._queue is self._door.leaving:
            self.transport.close()
        else:
            super().shutdown()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._settle()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._settle()

    def leave_queue(self) -> None:
        if self._queue is not None:
            self._move(None)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._settle()

    # --- the parser's

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[CONNECTION] = self
        self._reading = _HEAD
        self._most_headers = self._door.limits.header_count
        if self._queue is self._door.heads:
            self._move(None)  # its time begins with its first byte

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._reading != _HEAD:
            return  # after the body it is too late to say something about the request
        if len(self.headers) >= self._most_headers:
            self._stop(431, f"the request has more than {self._most_headers} headers")
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        limit = self._door.limits.header_size
        if (self._split or self._unread > limit) and self._head_size() > limit:
            self._stop(431, f"the header is larger than {limit} bytes")
        ambiguity = ambiguity_of(self.url, self.headers, self.parser)
        if ambiguity is not None:
            self._stop(400, ambiguity)
        if len(self.pipeline) >= MOST_PIPELINED:
            self._stop(400, "too many requests at once")
        self._reading = _BODY
        self._unread = self._body_size = self._body_came = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        cycle = self.cycle
        self._body_size += len(body)
        if cycle is None or cycle.response_complete:
            if self._body_size > max(DRAINED * self._door.limits.body_size, LEAST_DRAINED):
                self._stop(413, "the body is too large")
            return
        cycle.body += body
        if len(cycle.body) > BUFFERED:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        self._reading = _BETWEEN
        self._unread = 0
        self._split = True
        super().on_message_complete()

    # --- ours

    def _feed(self, data: bytes | memoryview, limit: int) -> None:
        reading = self._reading
        if reading == _BODY:
            self._body_came += len(data)
        else:
            self._unread += len(data)
            if reading == _BETWEEN:
                self._split = False
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # Answered as if it had not asked; what comes next may be in another protocol.
            self._deaf = True
            if self.cycle is not None:
                self.cycle.keep_alive = self.cycle.more_body = False
        except httptools.HttpParserError:
            self.refuse(*self._refusal)
        else:
            if self._reading != _BODY:
                if self._unread > limit:
                    self.refuse(431, f"the header is larger than {limit} bytes")
            elif self._body_came > SPARSE * self._body_size + limit:
                self.refuse(400, "there is more between the chunks of the body than in them")

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _stop(self, status: int, reason: str) -> Never:
        self._refusal = status, reason
        raise _RefusedRequestError

    def _answer(self, status: int, reason: str) -> bytes:
        text = reason.encode()
        fixed = (
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", b"%d" % len(text)),
            (b"connection", b"close"),
            *(((b"retry-after", b"1"),) if status == 503 else ()),
        )
        lines = b"".join([b"%b: %b\r\n" % pair for pair in fixed])
        return b"%b%b%b\r\n%b" % (status_line(status), self.state.usual_lines, lines, text)

    def _left(self) -> None:
        """Tells the applications at work that the client is gone; requests that waited are not begun."""
        for cycle in (self.running, self.cycle):
            if cycle and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        self.pipeline.clear()
        self.flow.resume_writing()

    def _end_after_reading(self) -> None:
        """Ends our side, and waits a little for the other: a connection that is closed while something comes
        is reset, and the answer lost."""
        if self.transport.can_write_eof():
            self.flow.resume_reading()
            self.transport.write_eof()
            self._move(self._door.leaving)
        else:
            self._close()

    def _close(self) -> None:
        self.transport.close()
        self._settle()

    def _settle(self) -> None:
        """Queues the connection by what it owes us."""
        door, cycle = self._door, self.cycle
        if self.transport.is_closing():
            queue = door.stalled if self.transport.get_write_buffer_size() else None
        elif self._queue is door.leaving:
            return
        elif self.flow.write_paused:
            queue = door.stalled
        elif not cycle or cycle.response_complete:
            if self._reading == _BODY:
                queue = door.bodies
            elif self.known and self._reading == _BETWEEN:
                queue = door.kept
            else:
                queue = door.heads
        elif self._reading == _BODY and not self.pipeline:
            queue = door.bodies
        else:
            queue = None if self.known else door.asking
        if queue is not self._queue:
            self._move(queue)
            if queue is door.stalled:
                self._unsent = self.transport.get_write_buffer_size()

    def _move(self, queue: Queue | None) -> None:
        if self._queue is not None:
            self._queue.pop(self, None)
        self._queue = queue
        if queue is not None:
            queue[self] = self._door.now
