"""One connection to a server over HTTP/1.1: a request at a time, and its answer as it comes, within bounds.

The parser is llhttp, by way of `httptools`. All that is ours is what to do with what it finds.
"""

from __future__ import annotations

import asyncio
import select
from typing import TYPE_CHECKING, Any, cast

import httptools

from spindle.http.known_head import LENGTH, AnswerHead, known_head

if TYPE_CHECKING:
    from collections.abc import Callable

    from spindle.http.answer import HttpAnswer

MAX_HEAD = 64 * 1024
"""Bytes of the head of an answer, with those of answers that only say that one will come."""
MAX_HEADERS = 256
BUFFERED = 256 * 1024
"""Bytes of a body that are held before somebody reads them."""
SPARSE = 8
"""Bytes that may come for each byte of a body: a chunk of one byte takes six."""
PIECE = 256 * 1024
"""Bytes of a request that are written before we look whether the server takes them."""

CLOSED = "it closed the connection"
BROKEN_OFF = "the answer broke off"


class _TooMuchError(Exception):
    """Ends the parser's work, after the reason was noted."""


class ServerConnection(asyncio.Protocol):
    """A connection, whoever it belongs to at the moment."""

    def __init__(
        self, freed: Callable[[ServerConnection], None], ended: Callable[[ServerConnection], None]
    ) -> None:
        """`freed` is called when the next request may be sent, `ended` when none can be sent any more."""
        self.peer: str | None = None
        """The address at the other end."""
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when it has ended."""
        self.rests_since = 0.0
        self._freed = freed
        self._ended = ended
        self._transport: asyncio.Transport | None = None
        self._poll: select.poll | None = None
        self._parser = self._new_parser()
        self._known: AnswerHead | None = None
        """The head of the newest answer, if the next one may begin with it."""
        self._answer: HttpAnswer | None = None
        self._has_no_body = False
        self._is_paused = False
        self._writable: asyncio.Future[None] | None = None
        self._begin()

    def _new_parser(self) -> httptools.HttpResponseParser:
        parser = httptools.HttpResponseParser(self)
        # What servers send that were never read by a strict client.
        parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        return parser

    def _begin(self) -> None:
        self._raw: list[tuple[bytes, bytes]] = []
        self._has_head = self._is_interim = self._is_done = self._is_surplus = self._keeps = False
        self._is_whole = True
        """False while a request is written."""
        self._came = self._head_came = self._body_came = self._held = 0
        self._problem: str | None = None

    # --- for whoever sends

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def is_fresh(self) -> bool:
        """True if nothing has come on a kept connection, also nothing that the event loop has not noticed
        yet: whatever is written after a server's end would be lost, and nobody could say whether it had
        arrived."""
        return self.is_open and self._poll is not None and not is_readable(self._poll)

    async def send(self, head: bytes, content: bytes | None, answer: HttpAnswer, *, no_body: bool) -> None:
        """Writes a request, whose answer is filled with what comes. `no_body`: its answer has none. Raises
        TimeoutError where the server takes nothing for as long as the answer would be waited for."""
        if content is None or len(content) <= PIECE:
            self.send_at_once(head + content if content else head, answer, no_body=no_body)
            return
        self.send_at_once(head, answer, no_body=no_body)
        self._is_whole = False
        await self._write_pieces(self.transport, content, answer)

    def send_at_once(self, request: bytes, answer: HttpAnswer, *, no_body: bool = False) -> None:
        """Writes a request that is small."""
        transport = self._transport
        assert transport is not None
        assert self._answer is None
        self._begin()
        self._answer, self._has_no_body = answer, no_body
        transport.write(request)

    async def _write_pieces(self, transport: asyncio.Transport, content: bytes, answer: HttpAnswer) -> None:
        view = memoryview(content)
        for start in range(0, len(view), PIECE):
            if answer.status or answer.failure is not None:
                return  # it has its answer without the rest, and the connection cannot be used again
            transport.write(view[start : start + PIECE])
            if self._writable is not None:
                await answer.in_time(self._writable)
        # Nobody may take the rest any more once the answer has begun.
        self._is_whole = not answer.status

    async def answered(self, answer: HttpAnswer) -> None:
        """Waits for the head of the answer, or what is in its place: see `failure` there. Raises
        TimeoutError."""
        while not answer.status and answer.failure is None:
            await answer.wait()

    def use(self, transport: asyncio.Transport) -> None:
        """Goes on over another transport, such as one in secret."""
        self._transport = transport

    @property
    def transport(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport

    def go_on(self) -> None:
        """Reads on, where too much was held."""
        self._held = 0
        if self._is_paused and self.is_open:
            self._is_paused = False
            self.transport.resume_reading()

    def drop(self, reason: str = "the connection was closed here") -> None:
        """Ends it at once, in the middle of whatever it does. An answer that is not complete never is."""
        answer, self._answer = self._answer, None
        if self._transport is not None:
            self._transport.abort()
        if answer is not None:
            answer.fail(reason)

    # --- asyncio's

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not checked: that of uvloop is one by what it does alone.
        self._transport = cast("asyncio.Transport", transport)
        address: Any = transport.get_extra_info("peername")
        self.peer = str(address[0]) if address else None
        made = transport.get_extra_info("socket")
        if made is not None:
            self._poll = select.poll()
            self._poll.register(made.fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        if answer is None:
            self.drop()  # nobody asked
            return
        known = self._known
        if known is not None and not self._came and not self._has_no_body:
            body = known.body_in(data)
            if body is not None:
                self._keeps = True
                answer.begin(200, {**known.headers, LENGTH: str(len(body))}, body)
                self._complete(answer, ends_here=True)
                return
        self._came += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._is_surplus = True
            if not self._is_done:
                self.drop(self._problem or f"it does not answer in HTTP/1.1: {error}")
                return
        if self._is_done:
            # Only those that are like most: not one that has to wait, or has no body.
            is_usual = self._came == len(data) and answer.status == 200 and not self._has_no_body
            self._known = known_head(data, answer.headers) if is_usual else None
            self._complete(answer, ends_here=not self._has_no_body or data.endswith(b"\r\n\r\n"))
            return
        if not self._has_head:
            if self._came > MAX_HEAD:
                self.drop(f"the head of its answer is larger than {MAX_HEAD} bytes")
            return
        if self._came - self._head_came > SPARSE * self._body_came + MAX_HEAD:
            self.drop("there is more between the pieces of its answer than in them")
            return
        if self._held > BUFFERED and not self._is_paused:
            self._is_paused = True
            self.transport.pause_reading()
        answer.wake()

    def eof_received(self) -> None:
        """See connection_lost, which follows."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended(self)
        self.lost.set_result(None)
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        answer = self._answer
        if answer is None:
            return
        if exc is None and self._has_head and self._ends_with_connection():
            self._is_surplus = True
            self._complete(answer, ends_here=True)
        else:
            self.drop(BROKEN_OFF if self._has_head else CLOSED)

    def pause_writing(self) -> None:
        self._writable = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    # --- the parser's

    def on_message_begin(self) -> None:
        if self._is_done:
            self._is_surplus = True

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._has_head:
            return  # after the body it is too late to say something about it
        self._head_came += len(name) + len(value) + 4
        if self._head_came > MAX_HEAD:
            self._problem = f"the head of its answer is larger than {MAX_HEAD} bytes"
            raise _TooMuchError
        if len(self._raw) >= MAX_HEADERS:
            self._problem = f"its answer has more than {MAX_HEADERS} headers"
            raise _TooMuchError
        self._raw.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            self._is_interim = True
            self._raw.clear()
            return
        answer = self._answer
        if answer is None or self._is_done:
            return
        self._has_head = True
        headers = answer.headers
        for raw, value in self._raw:
            name, text = raw.decode("latin-1").lower(), _text(value)
            if name == "set-cookie":
                answer.cookies = [*answer.cookies, text]
            headers[name] = f"{headers[name]}, {text}" if name in headers else text
        answer.status = status
        self.resume_writing()  # the server may take no more of the request
        if self._has_no_body:
            # What a proxy connects us with has no end of its own.
            keeps = answer.request.method == "CONNECT" or self._parser.should_keep_alive()
            self._is_done, self._keeps = True, keeps

    def on_body(self, body: bytes) -> None:
        if self._is_done or self._answer is None:
            self._is_surplus = True
            return
        self._body_came += len(body)
        self._held += len(body)
        self._answer.add(body)

    def on_message_complete(self) -> None:
        if self._is_interim:
            self._is_interim = False
        elif not self._is_done:
            self._is_done, self._keeps = True, self._parser.should_keep_alive()

    # --- ours

    def _ends_with_connection(self) -> bool:
        headers = self._answer.headers if self._answer is not None else {}
        is_chunked = "chunked" in headers.get("transfer-encoding", "").lower()
        return "content-length" not in headers and not is_chunked

    def _complete(self, answer: HttpAnswer, *, ends_here: bool) -> None:
        answer.is_complete = True
        self._answer = None
        if self._keeps and ends_here and self._is_whole and not self._is_surplus and self.is_open:
            if self._has_no_body:
                self._parser = self._new_parser()  # this one waits for a body that was announced
            if self._is_paused:
                self.go_on()
            self._freed(self)
        else:
            self.drop()
        answer.wake()


def is_readable(poll: select.poll) -> bool:
    """True if something has come, or the end."""
    return bool(poll.poll(0))


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
