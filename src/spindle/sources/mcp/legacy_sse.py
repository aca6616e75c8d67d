"""The HTTP transport before Streamable HTTP: requests are posted, answers come on one stream of events.

The SDK's own client posts one message after the other, gives the whole session up when one of them
is refused, and takes no answer over 1 MiB.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable

import httpx2
from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST

from spindle.errors import ConnectionFailedError, ServerError, SpindleError, from_status
from spindle.http.addresses import same_origin
from spindle.http.retry_after import retry_after
from spindle.mcp_imports import MCPError
from spindle.sources.mcp.link import LineReader

MAX_REDIRECTS = 5


class SseLink:
    def __init__(self, client: httpx2.AsyncClient, url: httpx2.URL, max_message: int) -> None:
        self._client = client
        self._url = url
        self._max_message = max_message
        self._reader = LineReader(max_message + len(b"data: "), self._field, self._too_long)
        self._event = b"message"
        self._data = bytearray()
        self._endpoint: asyncio.Future[httpx2.URL] = asyncio.get_running_loop().create_future()
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
        try:
            response = await self._client.post(self._endpoint.result(), content=line, headers=headers)
        except (httpx2.TransportError, httpx2.StreamError) as error:
            raise MCPError(code=CONNECTION_CLOSED, message=str(error)) from None
        if response.status_code >= 300:
            raise MCPError(code=INVALID_REQUEST, message="the server refused the message")

    async def _post_or_not(self, line: bytes) -> None:
        with contextlib.suppress(MCPError):
            await self._post(line)

    # --- reading

    async def endpoint(self) -> None:
        """Wait until the server has said where to post to."""
        await self._endpoint

    async def read(self, response: httpx2.Response) -> None:
        reason = "ended its stream of events"
        try:
            async for chunk in response.aiter_bytes():
                self._reader.feed(chunk)
                await self._may_read.wait()
        except (httpx2.TransportError, httpx2.StreamError) as error:
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
        endpoint = self._url.join(data.decode("utf-8", "replace"))
        if not same_origin(str(self._url), str(endpoint)):
            place = endpoint.copy_with(userinfo=b"", query=None, fragment=None)
            self._fail(ServerError(f"the server wants messages posted to another origin, {place}: refused"))
        elif not self._endpoint.done():
            self._endpoint.set_result(endpoint)


@contextlib.asynccontextmanager
async def open_sse_link(
    client: httpx2.AsyncClient, name: str, url: str, max_message: int
) -> AsyncGenerator[SseLink]:
    response = await _get_events(client, name, url)
    link = SseLink(client, response.request.url, max_message)
    reading = asyncio.create_task(link.read(response))
    try:
        await link.endpoint()
        yield link
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await link.close()
        await response.aclose()


async def _get_events(client: httpx2.AsyncClient, name: str, url: str) -> httpx2.Response:
    request = client.build_request("GET", url, headers={"accept": "text/event-stream"})
    left = MAX_REDIRECTS
    while True:
        try:
            response = await client.send(request, stream=True)
        except httpx2.TransportError as error:
            raise ConnectionFailedError(f"cannot reach {name!r}: {error}", sent=False) from None
        status = response.status_code
        if status == 200 and response.headers.get("content-type", "").startswith("text/event-stream"):
            return response
        await response.aclose()
        following, left = response.next_request, left - 1
        if following is None or left < 0 or not same_origin(str(request.url), str(following.url)):
            break
        request = following
    if status == 200:
        raise ServerError(f"{name!r} gives no stream of events at its URL")
    message = f"{name!r} answered with HTTP status {status}"
    raise from_status(status, message, retry_after=retry_after(response.headers.get("retry-after")))
