"""The one client for all that leaves over HTTP: checked addresses, no cookies, no redirects, one TLS context.

The HTTP library is behind these classes and `pinned`; MCP's transports alone are given a client of its own.
A pool of connections never mixes those that were checked with those that were not.
"""

from __future__ import annotations

import functools
import logging
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx2

from spindle.http import addresses
from spindle.http.failures import InsideError, LostError, TooLargeError, UnpackError, UnreachableError
from spindle.http.pinned import public_transport, require_pinned
from spindle.http.public import answered_inside, is_proxied
from spindle.http.request import Prepared

CONNECT_FAILURES = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.UnsupportedProtocol,
)
_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
_LOCATION = "spindle_location"


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


@functools.cache
def shared_ssl_context() -> ssl.SSLContext:
    """Returns the one TLS context of all clients: making it takes longer than many a call."""
    return httpx2.create_ssl_context()


class HttpAnswer:
    """An answer. Its body is still to come, and can be read once."""

    def __init__(self, request: Prepared, response: httpx2.Response) -> None:
        self.request = request
        """The request that it answers; after redirects not the first one."""
        self.sent_from_outside = False
        """True if a server outside redirected us to the one that answers."""
        self._response = response

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self._response.status_code

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, found by names in small letters or capitals."""
        return self._response.headers

    @property
    def url(self) -> str:
        """The address that it came from."""
        return str(self._response.url)

    @property
    def media_type(self) -> str:
        """The type of the body, without parameters; empty where the server does not say."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def charset(self) -> str | None:
        """The encoding that the server names."""
        return self._response.charset_encoding

    async def is_from_inside(self) -> bool:
        """True if this machine or a network of its own answered. Asked before the body is read: a connection
        that is over no longer tells."""
        return await answered_inside(self.url, self._peer())

    async def is_from_outside(self) -> bool:
        """True if it is known that somebody else than this machine and its networks answered."""
        return not await self.is_from_inside() and (is_proxied() or self._peer() is not None)

    def _peer(self) -> str | None:
        stream = self._response.extensions.get("network_stream")
        try:
            address: Any = stream.get_extra_info("server_addr") if stream is not None else None
        except OSError:
            # The connection is gone, and with it what it led to.
            return None
        return None if address is None else str(address[0])

    async def chunks(self, limit: int | None = None, size: int | None = None) -> AsyncGenerator[bytes]:
        """The body as it comes, unpacked, in pieces of `size` where that is given."""
        announced = self.headers.get("content-length", "")
        # What a HEAD announces is not its own body.
        is_known = announced.isdecimal() and self.request.method != "HEAD"
        if limit is not None and is_known and int(announced) > limit:
            raise TooLargeError(limit, self.status)
        try:
            async for chunk in bounded(self._response.aiter_bytes(size), limit, self.status):
                yield chunk
        except httpx2.DecodingError as error:
            raise UnpackError(str(error)) from error
        except (httpx2.TransportError, httpx2.StreamError) as error:
            raise LostError(_reason(error)) from error

    async def read(self, limit: int) -> bytes:
        """The whole body, if it is not larger than `limit` bytes."""
        return b"".join([chunk async for chunk in self.chunks(limit)])

    async def aclose(self) -> None:
        """Leaves the connection to others, or ends it where more of the body would come."""
        await self._response.aclose()


async def bounded(
    chunks: AsyncIterable[bytes], limit: int | None, status: int = 0, *, ends: re.Pattern[bytes] | None = None
) -> AsyncIterator[bytes]:
    """Pieces of a body until they are more than `limit` bytes, which raises TooLargeError. Where `ends` says
    what parts end with, the limit is for each part: a stream of events may go on for days."""
    size, before = 0, b""
    async for chunk in chunks:
        size += len(chunk)
        if ends is not None:
            recent = before + chunk
            found = [match.end() for match in ends.finditer(recent)]
            size = len(recent) - found[-1] if found else size
            before = recent[-3:]
        if limit is not None and size > limit:
            raise TooLargeError(limit, status)
        yield chunk


class HttpClient:
    """Sends requests over connections that are kept: anywhere, or to public addresses only."""

    def __init__(self, connect_timeout: float, *, library: httpx2.AsyncClient | None = None) -> None:
        """`library`: a client that somebody else has made and closes. Requests go anywhere with it."""
        self._connect_timeout = connect_timeout
        self._clients: dict[bool, httpx2.AsyncClient] = {}
        self._borrowed = library
        self._proxied = is_proxied()
        if library is not None:
            library.event_hooks = {"response": [_hide_location]}

    async def aclose(self) -> None:
        for client in self._clients.values():
            await client.aclose()
        self._clients.clear()

    async def send(
        self, request: Prepared, *, public_only: bool = False, timeout: float | None = None
    ) -> HttpAnswer:
        """An answer to be read and closed by whoever asked for it. `timeout` is for each step of the
        exchange. Raises InsideError or UnreachableError."""
        try:
            url = httpx2.URL(request.url)
        except (httpx2.InvalidURL, UnicodeError) as error:
            raise UnreachableError("an address that is not a URL", str(error), sent=False) from None
        if public_only and self._proxied and await addresses.leads_inside(request.url):
            raise InsideError(url.host)
        client = self._client(public_only and not self._proxied)
        # The library takes text for ASCII only; UTF-8 is what servers read today.
        headers = [(name.encode(), value.encode()) for name, value in request.headers.items()]
        # Nobody's own limits are in a client that was borrowed.
        limits: dict[str, Any] = {"timeout": httpx2.Timeout(timeout)} if timeout is not None else {}
        try:
            built = client.build_request(
                request.method, url, headers=headers, content=request.content, **limits
            )
            response = await client.send(built, stream=True)
        except httpx2.TransportError as error:
            sent = not isinstance(error, CONNECT_FAILURES)
            raise UnreachableError(url.host, _reason(error), sent=sent) from error
        location = response.extensions.pop(_LOCATION, None)
        if location is not None:
            response.headers["location"] = location
        return HttpAnswer(request, response)

    def _client(self, public_only: bool) -> httpx2.AsyncClient:
        if self._borrowed is not None:
            return self._borrowed
        client = self._clients.get(public_only)
        if client is None:
            client = self._clients[public_only] = httpx2.AsyncClient(
                transport=public_transport(shared_ssl_context(), _LIMITS) if public_only else None,
                cookies=_no_cookies(),
                event_hooks={"response": [_hide_location]},
                **library_options(self._connect_timeout),
            )
            if public_only:
                require_pinned(client)
        return client


def library_options(connect_timeout: float) -> dict[str, Any]:
    """Returns the options that all clients of the library have."""
    # How long an answer may take is for each request to say.
    timeout = httpx2.Timeout(None, connect=connect_timeout)
    return {"verify": shared_ssl_context(), "limits": _LIMITS, "timeout": timeout}


def _no_cookies() -> CookieJar:
    """Users without credentials of their own share a session; what the API sets for one must not be sent
    for another."""
    return CookieJar(DefaultCookiePolicy(allowed_domains=[]))


async def _hide_location(response: httpx2.Response) -> None:
    """The library makes the next request of every redirect, followed or not, and fails for a `Location`
    that it cannot read."""
    if response.has_redirect_location:
        response.extensions[_LOCATION] = response.headers.pop("location")


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
