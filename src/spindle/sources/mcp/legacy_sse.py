"""The HTTP transport before Streamable HTTP: requests are posted, answers come on one stream of events.

The SDK's own client posts one message after the other, gives the whole session up when one of them
is refused, and takes no answer over 1 MiB.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable

from spindle.errors import ConnectionFailedError, ServerError, SpindleError, from_status
from spindle.http.addresses import join_url, plain_url, same_origin
from spindle.http.answer import HttpAnswer
from spindle.http.exchange import RedirectPolicy, exchange
from spindle.http.failures import HttpFailure, RedirectError, UnreachableError
from spindle.http.retry_after import retry_after
from spindle.mcp_protocol.errors import McpError
from spindle.mcp_protocol.names import CONNECTION_CLOSED, INVALID_REQUEST
from spindle.sources.mcp.exchange import CallExchange, current_exchange
from spindle.sources.mcp.link import LineReader, turns
from spindle.sources.mcp.pending import Pending
from spindle.sources.mcp.session_http import SessionHttp


class SseLink:
    """One session's stream of events, and the address that messages are posted to."""

    brought: list[Pending] | None = None  # a task reads

    def __init__(self, http: SessionHttp, url: str, max_message: int) -> None:
        self._http = http
        self._url = url
        self._max_message = max_message
        self._reader = LineReader(max_message + len(b"data: "), self._field, self._too_long)
        self._event = b"message"
        self._data = bytearray()
        self._endpoint: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._posts: set[asyncio.Task[None]] = set()
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._why_lost = ""
        self._on_line: Callable[[bytes], None] = lambda _line: None
        self._on_too_long: Callable[[bytes, bytes], None] = lambda _head, _tail: None
        self._on_lost: Callable[[], None] = lambda: None

    # --- talking

    def listen(
        self,
        on_line: Callable[[bytes], None],
        on_too_long: Callable[[bytes, bytes], None],
        on_lost: Callable[[], None],
    ) -> None:
        # Nothing of interest comes before the first request.
        self._on_line, self._on_too_long, self._on_lost = on_line, on_too_long, on_lost
        if self.lost:
            on_lost()

    @property
    def lost(self) -> bool:
        return bool(self._why_lost)

    def epitaph(self) -> str:
        return self._why_lost or "closed the session"

    async def write(self, line: bytes) -> bool:
        if self.lost:
            return False
        await self._post(line)
        return True

    def write_at_once(self, line: bytes, *, together: bool = False) -> bool:
        return False  # each line is a request of its own

    def write_now(self, line: bytes) -> None:
        task = asyncio.create_task(self._post_or_not(line))
        self._posts.add(task)
        task.add_done_callback(self._posts.discard)

    def pause_reading(self) -> None:
        self._may_read.clear()

    def resume_reading(self) -> None:
        self._may_read.set()

    async def _post(self, line: bytes) -> None:
        headers = {"content-type": "application/json"}
        note = current_exchange.get() or CallExchange()
        try:
            answer = await self._http.post(self._endpoint.result(), headers, line, note)
            try:
                await answer.read(self._max_message)
            finally:
                await answer.aclose()
        except RedirectError as error:
            raise McpError(code=INVALID_REQUEST, message=f"it {error}") from None
        except HttpFailure as error:
            note.failure = error
            raise McpError(code=CONNECTION_CLOSED, message=str(error)) from None
        if answer.status >= 300:
            raise McpError(code=INVALID_REQUEST, message="the server refused the message")

    async def _post_or_not(self, line: bytes) -> None:
        with contextlib.suppress(McpError):
            await self._post(line)

    # --- reading

    async def endpoint(self) -> None:
        """Wait until the server has said where to post to."""
        await self._endpoint

    async def read(self, answer: HttpAnswer) -> None:
        reason = "ended its stream of events"
        try:
            async for chunk in answer.chunks():
                read = self._reader.feed_a_while(chunk)
                while read < len(chunk):
                    await asyncio.sleep(turns.wait())
                    read = self._reader.feed_a_while(chunk, read)
                await self._may_read.wait()
        except HttpFailure as error:
            reason = f"broke off its stream of events: {error}"
        finally:
            self._lose(reason)

    async def close(self) -> None:
        for task in self._posts:
            task.cancel()
        await asyncio.gather(*self._posts, return_exceptions=True)

    def _lose(self, reason: str) -> None:
        self._why_lost = reason
        self._fail(ConnectionFailedError(f"the server {reason} before it said where to post to", sent=False))
        self._on_lost()

    def _fail(self, error: SpindleError) -> None:
        if not self._endpoint.done():
            self._endpoint.set_exception(error)
            self._endpoint.exception()

    def _field(self, line: bytes) -> None:
        name, _, value = line.rstrip(b"\r").partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            self._event = value
        elif name == b"data":
            self._data += (b"\n" if self._data else b"") + value
            if len(self._data) > self._max_message:
                self._too_long(bytes(self._data[:256]), bytes(self._data[-256:]))
                self._data.clear()
        elif not line.rstrip(b"\r"):
            event, self._event = self._event, b"message"
            data = bytes(self._data)
            self._data.clear()
            if event == b"endpoint":
                self._take_endpoint(data)
            elif data:
                self._on_line(data)

    def _too_long(self, head: bytes, tail: bytes) -> None:
        self._on_too_long(head.removeprefix(b"data:"), tail)

    def _take_endpoint(self, data: bytes) -> None:
        endpoint = join_url(self._url, data.decode("utf-8", "replace"))
        if endpoint is None:
            self._fail(ServerError("the server wants messages posted to an address that is not a URL"))
        elif not same_origin(self._url, endpoint):
            place = plain_url(endpoint)
            self._fail(ServerError(f"the server wants messages posted to another origin, {place}: refused"))
        elif not self._endpoint.done():
            self._endpoint.set_result(endpoint)


@contextlib.asynccontextmanager
async def open_sse_link(http: SessionHttp, name: str, url: str, max_message: int) -> AsyncGenerator[SseLink]:
    """Opens the stream of events, and waits until the server has said where to post to."""
    request = http.request("GET", url, {"accept": "text/event-stream"})
    async with contextlib.AsyncExitStack() as stack:
        try:
            opening = exchange(http.client, request, RedirectPolicy(same_origin=True, may_lead_inside=True))
            answer = await stack.enter_async_context(opening)
        except RedirectError as failure:
            raise ServerError(f"{name!r} {failure}", status=failure.status) from None
        except HttpFailure as failure:
            raise ConnectionFailedError(
                f"cannot reach {name!r}: {failure}",
                sent=False,
                unreachable=isinstance(failure, UnreachableError),
            ) from None
        _require_events(name, answer)
        link = SseLink(http, answer.url, max_message)
        reading = asyncio.create_task(link.read(answer))
        try:
            await link.endpoint()
            yield link
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            await link.close()


def _require_events(name: str, answer: HttpAnswer) -> None:
    status = answer.status
    if status != 200:
        wait = retry_after(answer.headers)
        raise from_status(status, f"{name!r} answered with HTTP status {status}", retry_after=wait)
    if answer.media_type != "text/event-stream":
        raise ServerError(f"{name!r} gives no stream of events at its URL")
