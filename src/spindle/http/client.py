"""The one client for all that leaves over HTTP: checked addresses, no cookies, no redirects, one TLS context.

The HTTP library is behind these classes, `pinned` and `cookies`. A pool of connections never mixes those that
were checked with those that were not.
"""

from __future__ import annotations

import functools
import io
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import aiohttp
from yarl import URL

from spindle.http import addresses
from spindle.http.cookies import SessionCookies
from spindle.http.credentials import basic_header
from spindle.http.failures import InsideError, LostError, TooLargeError, UnreachableError
from spindle.http.pinned import LibraryResponse, StaleConnectionError, open_library
from spindle.http.proxies import environment_proxies, is_proxied, proxy_for
from spindle.http.public import answered_inside
from spindle.http.request import Prepared
from spindle.http.tls import shared_ssl_context
from spindle.http.unpack import ACCEPTED, unpacked
from spindle.http.urls import Url, read_url
from spindle.version import __version__

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

logger = logging.getLogger("spindle.http")

_OWN_HEADERS = {"user-agent": f"spindle/{__version__}", "accept": "*/*", "accept-encoding": ACCEPTED}
_NEVER_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL)
_LARGE = 1024 * 1024
_CHARSET = re.compile(r";\s*charset\s*=\s*(?:\"([^\"]*)\"|([^\s;\"]+))", re.IGNORECASE)


class AnswerHeaders(Mapping[str, str]):
    """Headers, found by names in small letters or capitals. Those that came twice are joined."""

    __slots__ = ("_found",)

    def __init__(self, found: CIMultiDictProxy[str]) -> None:
        self._found = found

    def __getitem__(self, name: str) -> str:
        found = self._found.getall(name)
        return found[0] if len(found) == 1 else ", ".join(found)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name.lower() for name in self._found))

    def __len__(self) -> int:
        return len({name.lower() for name in self._found})

    def __contains__(self, name: object) -> bool:
        return name in self._found


class HttpAnswer:
    """An answer. Its body is still to come, and can be read once."""

    def __init__(self, request: Prepared, url: Url, response: aiohttp.ClientResponse) -> None:
        self.request = request
        """The request that it answers; after redirects not the first one."""
        self.sent_from_outside = False
        """True if a server outside redirected us to the one that answers."""
        self.status = response.status
        """The HTTP status."""
        self.headers: Mapping[str, str] = AnswerHeaders(response.headers)
        self._url = url
        self._response = response

    @property
    def url(self) -> str:
        """The address that it came from."""
        return str(self._url)

    @property
    def media_type(self) -> str:
        """The type of the body, without parameters; empty where the server does not say."""
        return _read_type(self._response.headers.get("Content-Type", ""))[0]

    @property
    def charset(self) -> str | None:
        """The encoding that the server names."""
        return _read_type(self._response.headers.get("Content-Type", ""))[1]

    async def is_from_inside(self) -> bool:
        """True if this machine or a network of its own answered."""
        return await answered_inside(self.url, self._peer())

    async def is_from_outside(self) -> bool:
        """True if it is known that somebody else than this machine and its networks answered."""
        return not await self.is_from_inside() and (is_proxied() or self._peer() is not None)

    def _peer(self) -> str | None:
        return self._response.peer if isinstance(self._response, LibraryResponse) else None

    async def chunks(self, limit: int | None = None, size: int | None = None) -> AsyncGenerator[bytes]:
        """The body as it comes, unpacked, in pieces of `size` where that is given."""
        self._check_announced(limit)
        body: AsyncIterable[bytes] = self._response.content.iter_any()
        if encoding := self.headers.get("content-encoding"):
            body = unpacked(body, encoding)
        if limit is not None:
            body = bounded(body, limit, self.status)
        try:
            async for chunk in body if size is None else _pieces(body, size):
                yield chunk
        except (aiohttp.ClientError, TimeoutError) as error:
            raise LostError(_reason(error)) from error

    async def read(self, limit: int) -> bytes:
        """The whole body, if it is not larger than `limit` bytes."""
        if "content-encoding" in self.headers:
            return b"".join([chunk async for chunk in self.chunks(limit)])
        self._check_announced(limit)
        found, size = list[bytes](), 0
        try:
            while chunk := await self._response.content.readany():
                size += len(chunk)
                if size > limit:
                    raise TooLargeError(limit, self.status)
                found.append(chunk)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise LostError(_reason(error)) from error
        return found[0] if len(found) == 1 else b"".join(found)

    def _check_announced(self, limit: int | None) -> None:
        announced = self.headers.get("content-length", "")
        # What a HEAD announces is not its own body.
        is_known = announced.isdecimal() and self.request.method != "HEAD"
        if limit is not None and is_known and int(announced) > limit:
            raise TooLargeError(limit, self.status)

    @property
    def is_complete(self) -> bool:
        """True if all of the body has come."""
        return self._response.content.is_eof()

    def release(self) -> None:
        """Leaves the connection to others, or ends it where more of the body would come."""
        self._response.release()

    async def aclose(self) -> None:
        """See release."""
        self._response.release()


@functools.lru_cache(256)
def _read_type(header: str) -> tuple[str, str | None]:
    """The media type in a header, and the encoding."""
    found = _CHARSET.search(header)
    return header.partition(";")[0].strip().lower(), (found[1] or found[2]) if found else None


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


async def _pieces(chunks: AsyncIterable[bytes], size: int) -> AsyncIterator[bytes]:
    kept = bytearray()
    async for chunk in chunks:
        kept += chunk
        while len(kept) >= size:
            yield bytes(kept[:size])
            del kept[:size]
    if kept:
        yield bytes(kept)


class HttpClient:
    """Sends requests over connections that are kept: anywhere, or to public addresses only."""

    def __init__(self, connect_timeout: float, *, keeps_cookies: bool = False) -> None:
        """`keeps_cookies`: for one session with one server. Otherwise users share a client, and what an API
        sets for one of them must not be sent for another."""
        self._connect_timeout = connect_timeout
        self._clients: dict[bool, aiohttp.ClientSession] = {}
        self._proxies = environment_proxies()
        self._cookies = SessionCookies() if keeps_cookies else None

    async def aclose(self) -> None:
        for client in self._clients.values():
            await client.close()
        self._clients.clear()

    def keep_no_cookies(self) -> None:
        """Drops cookies, for a session that serves several users."""
        if self._cookies is not None:
            self._cookies.keep_none()

    async def send(
        self, request: Prepared, *, public_only: bool = False, timeout: float | None = None
    ) -> HttpAnswer:
        """An answer to be read and closed by whoever asked for it. `timeout` is for each step of the
        exchange. Raises InsideError or UnreachableError."""
        try:
            url = read_url(request.url)
        except ValueError as error:
            raise UnreachableError("an address that is not a URL", str(error), sent=False) from None
        if url.scheme not in ("http", "https") or not url.host:
            raise UnreachableError(
                url.host, "the address does not begin with http:// or https://", sent=False
            )
        proxy = proxy_for(url, self._proxies)
        if public_only and proxy is not None and await addresses.leads_inside(request.url):
            raise InsideError(url.host)
        client = self._client(public_only and proxy is None)
        options: dict[str, Any] = {"proxy": proxy} if proxy is not None else {}
        if timeout is not None:
            options["timeout"] = aiohttp.ClientTimeout(total=None, connect=timeout, sock_read=timeout)
        if url.scheme == "https":
            options["ssl"] = shared_ssl_context()
        response = await _exchanged(client, request, url, options)
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("%s %s: %s", request.method, url.plain(), response.status)
        return HttpAnswer(request, url, response)

    def _client(self, public_only: bool) -> aiohttp.ClientSession:
        client = self._clients.get(public_only)
        if client is None:
            client = self._clients[public_only] = open_library(
                public_only=public_only, connect_timeout=self._connect_timeout, cookies=self._cookies
            )
        return client


async def _exchanged(
    client: aiohttp.ClientSession, request: Prepared, url: Url, options: dict[str, Any]
) -> aiohttp.ClientResponse:
    content = request.content
    # It takes bytes for small; a file is written piece by piece.
    data = io.BytesIO(content) if content is not None and len(content) > _LARGE else content
    try:
        # Handed over in its parts, as they are: the library would write some of them differently.
        address = URL.build(
            scheme=url.scheme, host=url.host, port=url.port, path=url.path or "/",
            query_string=url.query or "", encoded=True,
        )  # fmt: skip
        headers = _headers(request, url)
        while True:
            try:
                return await client.request(
                    request.method, address, headers=headers, data=data, allow_redirects=False, **options
                )
            except StaleConnectionError:
                continue  # there is one kept connection less now
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        sent = not isinstance(error, _NEVER_SENT)
        raise UnreachableError(url.host, _reason(error), sent=sent) from error
    except ValueError as error:
        # Of the library, before anything was sent: a header or a method that is none.
        raise UnreachableError(url.host, str(error), sent=False) from error


def _headers(request: Prepared, url: Url) -> dict[str, str]:
    headers = {name.lower(): value for name, value in request.headers.items()}
    headers = {**_OWN_HEADERS, **headers}
    if url.user and "authorization" not in headers:
        user, _, password = url.user.partition(":")
        headers["authorization"] = basic_header(unquote(user), unquote(password))
    return headers


def _reason(error: BaseException) -> str:
    """The reason in words without the address, which may hold a key."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            reason = error.certificate_error
            return f"its certificate cannot be trusted: {getattr(reason, 'verify_message', '') or reason}"
        case aiohttp.ClientConnectorError():
            return error.os_error.strerror or str(error.os_error) or "it cannot be connected to"
        case aiohttp.ConnectionTimeoutError():
            return "it cannot be connected to in time"
        case aiohttp.SocketTimeoutError():
            return "nothing came from it in time"
        case aiohttp.ServerDisconnectedError():
            return "it closed the connection"
        case aiohttp.ClientPayloadError():
            return "the answer broke off"
        case aiohttp.ClientResponseError():
            return " ".join(error.message.split())[:300]
        case _:
            return str(error) or type(error).__name__
