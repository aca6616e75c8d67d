"""The HTTP client below the SDK's transports: statuses kept, failures contained, sizes limited."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Generator
from http.cookiejar import DefaultCookiePolicy
from typing import TYPE_CHECKING, Any, cast

import httpx2
from mcp_types import CONNECTION_CLOSED

from spindle.domain.identity import Credential
from spindle.domain.json_schema import from_json
from spindle.errors import ConfigurationError
from spindle.http.client import bounded
from spindle.http.credentials import cookie_header
from spindle.http.failures import TooLargeError
from spindle.http.retry_after import retry_after
from spindle.http.tls import shared_ssl_context
from spindle.sources.mcp.exchange import CallExchange, current_exchange
from spindle.sources.mcp.messages import MAX_CONTAINERS, containers_in

if TYPE_CHECKING:
    from spindle.sources.mcp.config import McpConfig

# Where nobody reads logs they would go to stderr: a traceback for a server that does not speak MCP,
# of which the user is told anyway.
logging.getLogger("mcp").addHandler(logging.NullHandler())


class _WithoutQueries(logging.Filter):
    """Keeps API keys that are part of a URL out of the HTTP library's log."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(
                argument.copy_with(query=None) if isinstance(argument, httpx2.URL) else argument
                for argument in record.args
            )
        return True


logging.getLogger("httpx2").addFilter(_WithoutQueries())

CONNECT_FAILURES = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.UnsupportedProtocol,
)
EVENT_BURST = 1000
EVENTS_PER_SECOND = 500

_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")


class BrokenResponse(httpx2.StreamError):
    """An answer that stopped in the middle, or never stops. The SDK fails one request for it; for a
    transport error it would end the session and every other call on it."""


class CallerAuth(httpx2.Auth):
    """Sends the credential of the caller of a request; without a caller, the session's own."""

    def __init__(self, credential: Credential) -> None:
        self._own = credential

    def auth_flow(self, request: httpx2.Request) -> Any:
        exchange = current_exchange.get()
        shown = exchange.credential if exchange is not None else None
        return _show(shown if shown is not None else self._own, request)


def _show(credential: Credential, request: httpx2.Request) -> Generator[httpx2.Request]:
    for name, value in credential.headers:
        request.headers[name] = value
    if credential.query:
        request.url = request.url.copy_merge_params(dict(credential.query))
    if credential.cookies:
        request.headers["cookie"] = cookie_header(credential.cookies, request.headers.get("cookie"))
    yield request


class McpHttpClient(httpx2.AsyncClient):
    """Remembers, for the caller of each request, what became of it."""

    def __init__(self, *, connect_timeout: float, max_body: int, contain: bool, **options: Any) -> None:
        super().__init__(
            verify=shared_ssl_context(), timeout=httpx2.Timeout(None, connect=connect_timeout), **options
        )
        self._max_body = max_body
        self._contain = contain

    def keep_no_cookies(self) -> None:
        """Drops cookies, for a session that serves several users: one user's cookie must not reach
        another."""
        self.cookies.clear()
        self.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        exchange = (current_exchange.get() if request.method == "POST" else None) or CallExchange()
        url = request.url
        try:
            response = await super().send(request, **options)
        except httpx2.TransportError as error:
            exchange.failure = error
            exchange.never_sent = isinstance(error, CONNECT_FAILURES)
            if not (self._contain and request.method == "POST"):
                raise
            return _as_answer(request, error)
        finally:
            request.url = url  # without the credential: it goes into messages
        exchange.status = response.status_code
        exchange.challenge = response.headers.get("www-authenticate")
        exchange.retry_after = retry_after(response.headers)
        if response.headers.get("content-encoding", "identity") != "identity":
            # It was told not to. A small body may unpack to one of any size.
            await response.aclose()
            exchange.failure = httpx2.DecodingError("the answer is compressed, which was not asked for")
            return _as_answer(request, exchange.failure)
        kind = response.headers.get("content-type", "").lower()
        stream = cast(httpx2.AsyncByteStream, response.stream)
        if kind.startswith("text/event-stream"):
            # The older transport's one stream carries all answers; it drops single ones itself.
            limit = self._max_body if self._contain else None
            response.stream = _LimitedStream(stream, exchange, limit, by_event=True)
        else:
            response.stream = _LimitedStream(stream, exchange, self._max_body, by_event=False)
        if response.status_code >= 400:
            exchange.had_json_rpc_error = "json" in kind and await _has_json_rpc_error(response)
        return response


def make_client(
    name: str, config: McpConfig, credential: Credential, *, contain: bool = True
) -> McpHttpClient:
    """Makes the client of one session. `contain`: a failure is an answer, for the SDK's transport."""
    shown = [*config.headers.items(), *credential.headers, *credential.cookies]
    for header, value in shown:
        # The HTTP library would refuse it too, with the value in its message.
        if not value.isprintable():
            raise ConfigurationError(
                f"the header {header} for {name!r} holds a character that cannot be sent",
                hint="a line break at its end, perhaps",
                source=name,
            )
    return McpHttpClient(
        connect_timeout=config.connect_timeout,
        max_body=config.max_result_size,
        contain=contain,
        auth=CallerAuth(credential),
        headers={"accept-encoding": "identity", **config.headers},
    )


def _as_answer(request: httpx2.Request, error: Exception) -> httpx2.Response:
    body = {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": CONNECTION_CLOSED, "message": str(error) or "lost"},
    }
    return httpx2.Response(502, json=body, request=request)


async def _has_json_rpc_error(response: httpx2.Response) -> bool:
    try:
        data: Any = from_json(await response.aread())
    except (ValueError, httpx2.StreamError, httpx2.TransportError):
        return False
    return isinstance(data, dict) and isinstance(cast("dict[str, Any]", data).get("error"), dict)


class EventRate:
    """The events that a stream may bring: a burst, then so many a second. Each takes the SDK a good part of a
    millisecond, so a server that never stops would leave nobody else anything of the event loop."""

    def __init__(self) -> None:
        self._at = time.monotonic()
        self._left = float(EVENT_BURST)

    def take(self, count: int) -> float:
        """Returns the seconds to wait before so many events are passed on."""
        now = time.monotonic()
        self._left = min(EVENT_BURST, self._left + (now - self._at) * EVENTS_PER_SECOND) - count
        self._at = now
        return max(0.0, -self._left / EVENTS_PER_SECOND)


class _LimitedStream(httpx2.AsyncByteStream):
    """A body of limited size. Of a stream of events each event is."""

    def __init__(
        self, stream: httpx2.AsyncByteStream, exchange: CallExchange, limit: int | None, *, by_event: bool
    ) -> None:
        self._stream = stream
        self._exchange = exchange
        self._limit = limit
        self._by_event = by_event

    async def __aiter__(self) -> AsyncIterator[bytes]:
        ends = _EVENT_END if self._by_event else None
        room = EventRate()
        containers = 0
        try:
            async for chunk in bounded(self._stream, self._limit, ends=ends):
                if ends is not None and (wait := room.take(chunk.count(b"\n\n") + chunk.count(b"\r\n\r\n"))):
                    await asyncio.sleep(wait)
                if ends is not None and b"\n\n" in chunk:
                    containers = 0
                containers += containers_in(chunk)
                if containers > MAX_CONTAINERS:
                    raise TooLargeError(MAX_CONTAINERS, 0)
                yield chunk
            self._exchange.ended = self._by_event
        except httpx2.TransportError as error:
            self._exchange.failure = error
            raise BrokenResponse(str(error) or "the answer broke off") from error
        except TooLargeError as failure:
            what = "bytes" if containers <= MAX_CONTAINERS else "lists and objects"
            self._exchange.too_large = f"the answer is larger than {failure.limit} {what}"
            # Each is what the SDK expects from such a body, and fails one request for.
            kind = httpx2.SSEError if self._by_event else BrokenResponse
            raise kind(self._exchange.too_large) from None

    async def aclose(self) -> None:
        await self._stream.aclose()
