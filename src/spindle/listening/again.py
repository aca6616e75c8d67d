"""Requests that begin, byte for byte, like an earlier one on their connection, as all but the first few of a
client do. What such a head says was found out before: it is neither parsed nor looked at again, and the body
goes straight to whoever took the one before."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine
from dataclasses import dataclass
from hmac import compare_digest
from typing import TYPE_CHECKING, Any, Protocol, cast

from spindle.listening.connections import CONNECTION
from spindle.listening.cycle import RequestCycle, status_line
from spindle.listening.requests import RequestConnection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Scope

    from spindle.listening.state import ServerState


LARGEST = 16 * 1024
"""Bytes of a request that may go this way."""
_OK = status_line(200)


class BodyReceiver(Protocol):
    """Takes the bodies of requests with a head that is known."""

    def __call__(self, request: RepeatedRequest, body: bytes) -> Coroutine[Any, Any, None]:
        """Answers the request, or has it take the ordinary way."""
        ...


@dataclass(frozen=True, slots=True)
class _KnownHead:
    """A head that came before, in the two parts around the length of its body, and who takes such bodies."""

    before: bytes
    after: bytes
    around: bytes
    """Both."""
    scope: Scope
    receiver: BodyReceiver


class KnownHead:
    """The head that the newest requests of a connection begin with, all but the length of the body."""

    __slots__ = ("_known", "_newest")

    def __init__(self) -> None:
        self._known: _KnownHead | None = None
        self._newest = b""
        """The newest request that was parsed, if it came in one piece."""

    def takes(self, connection: RepeatingConnection, data: bytes) -> bool:
        """Takes a whole request whose head is known. Returns False for others, which are to be parsed."""
        known = self._known
        if known is not None and (body := _body(data, known)) is not None and connection.is_free():
            connection.begin(RepeatedRequest(connection, known.scope, body), known.receiver)
            return True
        self._newest = data if len(data) <= LARGEST else b""
        return False

    def forget(self) -> None:
        """Lets go of the head, and of the session that its receiver holds."""
        self._known, self._newest = None, b""

    def remember(self, scope: Scope, cycle: RequestCycle, receiver: BodyReceiver) -> None:
        """As `remember_head` says. `cycle` is that of the newest request."""
        head, _, body = self._newest.partition(b"\r\n\r\n")
        found = _LENGTH.search(head)
        if found is None or int(found[1]) != len(body) or not _is_usual(scope["headers"]):
            return
        if cycle.scope is scope and cycle.keep_alive and scope["method"] == "POST":
            kept = {key: value for key, value in scope.items() if key != CONNECTION}
            before, after = head[: found.start(1)], head[found.end(1) :] + b"\r\n\r\n"
            self._known = _KnownHead(before, after, before + after, kept, receiver)


_LENGTH = re.compile(rb"\r\ncontent-length: (\d{1,9})(?=\r\n|$)", re.IGNORECASE)
_DIGITS = 9


def _body(data: bytes, known: _KnownHead) -> bytes | None:
    """The body of a request that begins with a known head and came as a whole."""
    start = len(known.before)
    end = data.find(b"\r", start, start + _DIGITS + 1)
    head = end + len(known.after)
    # How long this takes must tell nothing of a token, as a proxy may send the requests of several clients.
    if end < 0 or not compare_digest(data[:start] + data[end:head], known.around):
        return None
    length = data[start:end]
    return data[head:] if length.isdigit() and int(length) == len(data) - head else None


def remember_head(scope: Scope, receiver: BodyReceiver) -> None:
    """Has this take the bodies of further requests that begin like this one, if it came in one piece."""
    connection: RepeatingConnection | None = scope.get(CONNECTION)
    if connection is not None and connection.cycle is not None:
        connection.head.remember(scope, connection.cycle, receiver)


def _is_usual(headers: list[tuple[bytes, bytes]]) -> bool:
    """True if nothing in a head asks for another treatment of the body, the answer or the connection."""
    found = dict(headers)
    kept = found.get(b"connection", b"keep-alive").lower() == b"keep-alive"
    return kept and len(found) == len(headers) and not found.keys() & _UNUSUAL


_UNUSUAL = {b"transfer-encoding", b"expect", b"upgrade", b"origin"}


class RepeatedRequest:
    """A request with a known head. Stands where a connection keeps the request that it is at."""

    __slots__ = (
        "_body", "_connection", "_passed_on", "disconnected", "keep_alive", "response_complete",
        "response_started", "scope", "task",
    )  # fmt: skip

    task: asyncio.Task[None]

    def __init__(self, connection: RepeatingConnection, scope: Scope, body: bytes) -> None:
        self._connection = connection
        self.scope: Mapping[str, Any] = scope
        self._body = body
        self._passed_on = False
        self.disconnected = False
        self.keep_alive = True
        self.response_started = self.response_complete = False

    @property
    def message_event(self) -> RepeatedRequest:
        return self

    def set(self) -> None:
        """Told that the client is gone, which nobody waits for here."""

    def answer(self, head: bytes, body: bytes) -> None:
        """Sends a whole answer. `head` is lines of headers of ours, without the length."""
        self.response_started = self.response_complete = True
        if self.disconnected:
            return
        connection = self._connection
        last = b"" if self.keep_alive else b"connection: close\r\n"
        first = _OK + connection.state.usual_lines
        connection.writer.write_whole(
            b"%b%b%bcontent-length: %d\r\n\r\n%b" % (first, head, last, len(body), body)
        )
        if not self.keep_alive:
            connection.transport.close()
        connection.on_response_complete()

    def as_others(self) -> RequestCycle:
        """The same request as ASGI has it, for whatever is not a whole answer at once."""
        self._passed_on = True
        connection = self._connection
        connection.scope = {**self.scope, CONNECTION: connection}
        cycle = RequestCycle(
            connection.scope,
            connection.writer,
            connection.flow,
            connection.state,
            connection.on_response_complete,
            keep_alive=self.keep_alive,
        )
        cycle.body, cycle.more_body = bytearray(self._body), False
        cycle.disconnected = self.disconnected
        cycle.message_event.set()
        if connection.cycle is cast(RequestCycle, self):
            connection.cycle = cycle
        connection.running = cycle
        return cycle

    async def take_ordinary_way(self) -> None:
        """Has the application answer it like any other."""
        await self.as_others().run(self._connection.state.app)

    async def run(self, receiver: BodyReceiver) -> None:
        """Has it answered. Without an answer, if that fails, the connection ends."""
        try:
            await receiver(self, self._body)
        except Exception as error:  # noqa: BLE001 - a task's top: it is reported
            loop = asyncio.get_running_loop()
            loop.call_exception_handler(
                {"message": "a request failed", "exception": error, "task": self.task}
            )
        finally:
            self._connection.state.tasks.discard(self.task)
            if not (self._passed_on or self.response_complete):
                self.response_complete = True
                self._connection.transport.close()


class RepeatingConnection(RequestConnection):
    """A connection that knows the head of its newest request."""

    def __init__(self, state: ServerState) -> None:
        super().__init__(state)
        self.head = KnownHead()

    def is_free(self) -> bool:
        """True if the next request can be answered at once."""
        busy = self.pipeline or self.flow.write_paused or self.transport.is_closing()
        return self.cycle is not None and self.cycle.response_complete and not busy

    def begin(self, request: RepeatedRequest, receiver: BodyReceiver) -> None:
        """Begins to answer a request, as `start` does for others."""
        self.cycle = self.running = cast(RequestCycle, request)
        self.leave_queue()
        request.task = task = self.loop.create_task(request.run(receiver))
        self.state.tasks.add(task)

    def leave_queue(self) -> None:
        """The client no longer owes us anything."""
