"""The one client for all that leaves over HTTP: checked addresses, no cookies, no redirects, one TLS context.

A connection to an address that was checked is never used for what may go anywhere, nor the other way round.
"""

from __future__ import annotations

import errno
import functools
import logging
import os
import ssl
from typing import TYPE_CHECKING, NamedTuple

from spindle.http import addresses
from spindle.http.answer import SILENT, HttpAnswer
from spindle.http.cookies import SessionCookies
from spindle.http.credentials import basic_header
from spindle.http.failures import InsideError, UnreachableError
from spindle.http.pool import ConnectionPool, Place, proxy_headers
from spindle.http.proxies import environment_proxies, proxy_for
from spindle.http.request import Prepared
from spindle.http.unpack import ACCEPTED
from spindle.http.urls import PORTS, Url, read_url
from spindle.http.writing import decoded_user, host_header, written_head
from spindle.version import __version__

if TYPE_CHECKING:
    from spindle.http.connection import ServerConnection

logger = logging.getLogger("spindle.http")

UNTAKEN = "it took no more of the request in time"
AT_ONCE = 64 * 1024
"""Bytes of a body that are copied to stand in one piece with their head."""
_OWN_HEADERS = {"user-agent": f"spindle/{__version__}", "accept": "*/*", "accept-encoding": ACCEPTED}


class RepeatableRequest(NamedTuple):
    """All of a request but its body."""

    request: Prepared
    url: Url
    place: Place
    head: bytes
    """All of it before the length of the body."""


class HttpClient:
    """Sends requests over connections that are kept: anywhere, or to public addresses only."""

    def __init__(self, connect_timeout: float, *, keeps_cookies: bool = False) -> None:
        """`keeps_cookies`: for one session with one server. Otherwise users share a client, and what an API
        sets for one of them must not be sent for another."""
        self._connect_timeout = connect_timeout
        self._connections = ConnectionPool()
        self._proxies = environment_proxies()
        self._cookies = SessionCookies() if keeps_cookies else None

    async def aclose(self) -> None:
        await self._connections.aclose()

    def keep_no_cookies(self) -> None:
        """Drops cookies, for a session that serves several users."""
        if self._cookies is not None:
            self._cookies.keep_none()

    async def send(
        self, request: Prepared, *, public_only: bool = False, timeout: float | None = None
    ) -> HttpAnswer:
        """An answer to be read and closed by whoever asked for it. `timeout` is for each step of the
        exchange. Raises InsideError or UnreachableError."""
        url = _asked(request.url)
        proxy = proxy_for(url, self._proxies) if self._proxies else None
        if public_only and proxy is not None and await addresses.leads_inside(request.url):
            raise InsideError(url.host)
        place = Place(
            url.scheme, url.host, url.port or PORTS[url.scheme], public_only and proxy is None, proxy
        )
        try:
            head = self._head(request, url, proxy)
        except ValueError as error:
            raise UnreachableError(url.host, str(error), sent=False) from error
        connection = self._connections.kept(place)
        if connection is None:
            connection = await self._connected(place, timeout)
        answer = HttpAnswer(request, url, connection, timeout)
        try:
            await connection.send(head, request.content, answer, no_body=request.method == "HEAD")
        except TimeoutError:
            connection.drop()
            raise UnreachableError(url.host, UNTAKEN, sent=True, is_silence=True) from None
        except BaseException:
            connection.drop()
            raise
        await self.answered(answer)
        return answer

    def repeatable(self, request: Prepared) -> RepeatableRequest | None:
        """Returns all that is the same in requests that differ from this one in nothing but their body, for
        `send_at_once`. None where more may differ, or it cannot be sent."""
        url = _asked(request.url)
        if self._proxies or request.method != "POST" or self._cookies:
            return None
        place = Place(url.scheme, url.host, url.port or PORTS[url.scheme], public_only=False, proxy=None)
        try:
            head = self._head(request, url, None)
        except ValueError:
            return None
        return RepeatableRequest(request, url, place, head[: head.rindex(b": ") + 2])

    def send_at_once(self, same: RepeatableRequest, content: bytes) -> HttpAnswer | None:
        """The answer that will come, for `answered`; None if the request would have to wait for a connection,
        or it is not the same any more."""
        if self._cookies or len(content) > AT_ONCE:
            return None
        connection = self._connections.kept(same.place)
        if connection is None:
            return None
        before = same.request
        request = Prepared(before.method, before.url, before.headers, content)
        answer = HttpAnswer(request, same.url, connection)
        connection.send_at_once(b"%b%d\r\n\r\n%b" % (same.head, len(content), content), answer)
        return answer

    async def answered(self, answer: HttpAnswer) -> None:
        """Waits for the head of an answer. Raises UnreachableError."""
        try:
            while not answer.status and answer.failure is None:
                await answer.wait()
        except TimeoutError:
            answer.release()
            raise UnreachableError(answer.host, SILENT, sent=True, is_silence=True) from None
        except BaseException:
            answer.release()
            raise
        if not answer.status:
            raise UnreachableError(answer.host, answer.failure or "", sent=True)
        if self._cookies is not None and answer.cookies:
            self._cookies.take(answer.request.url, answer.cookies)
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("%s %s: %s", answer.request.method, answer.plain_url, answer.status)

    async def _connected(self, place: Place, timeout: float | None) -> ServerConnection:
        patience = self._connect_timeout if timeout is None else min(timeout, self._connect_timeout)
        try:
            return await self._connections.connect(place, patience)
        except (OSError, ValueError) as error:
            raise UnreachableError(place.host, _reason(error), sent=False) from error

    def _head(self, request: Prepared, url: Url, proxy: str | None) -> bytes:
        headers = {"host": host_header(url), **_OWN_HEADERS}
        for name, value in request.headers.items():
            headers[name.lower()] = value
        if url.user and "authorization" not in headers:
            headers["authorization"] = basic_header(*decoded_user(url))
        if self._cookies is not None:
            cookies = self._cookies.header(request.url, headers.get("cookie"))
            if cookies is not None:
                headers["cookie"] = cookies
        target = f"{url.path or '/'}?{url.query}" if url.query else url.path or "/"
        if proxy is not None and url.scheme == "http":
            headers |= proxy_headers(read_url(proxy))
            target = f"http://{host_header(url)}{target}"
        return written_head(request.method, target, headers, request.content)


@functools.lru_cache(512)
def _read_known(text: str) -> Url:
    return read_url(text)


def _asked(text: str) -> Url:
    """The URL of a request; raises UnreachableError for one that cannot be asked."""
    try:
        url = _read_known(text)
    except ValueError as error:
        raise UnreachableError("an address that is not a URL", str(error), sent=False) from None
    if url.scheme not in ("http", "https") or not url.host:
        raise UnreachableError(url.host, "the address does not begin with http:// or https://", sent=False)
    return url


def _reason(error: BaseException) -> str:
    """The reason in words without the address, which may hold a key."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate cannot be trusted: {error.verify_message or error.reason}"
        case TimeoutError():
            return "it cannot be connected to in time"
        case OSError(errno=int(number)) if number in errno.errorcode:
            return os.strerror(number)  # asyncio's own words are about its call
        case OSError():
            return error.strerror or str(error) or "it cannot be connected to"
        case _:
            return str(error) or type(error).__name__
