"""Requests over kept connections: where they may go, redirects, renewed tokens, and bounds."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

import httpx2

from spindle.errors import ConfigurationError, ConnectionFailedError, ResultTooLargeError, ServerError
from spindle.http.addresses import is_loopback, leads_inside, same_origin
from spindle.sources.http import CONNECT_FAILURES
from spindle.sources.openapi.request import Prepared
from spindle.sources.reach import InsideError, Reach

if TYPE_CHECKING:
    from spindle.sources.utcp.config import UtcpConfig

MAX_REDIRECTS = 5
# All that follows a redirect to somebody else.
_HARMLESS = frozenset({"accept", "content-type", "user-agent", "accept-language"})
_REDIRECTS = (301, 302, 303, 307, 308)

Renew = Callable[[], Awaitable[str]]
"""Makes the value of a new `Authorization` header, after the present one was refused."""


def url_of(text: str) -> httpx2.URL:
    try:
        return httpx2.URL(text)
    except (httpx2.InvalidURL, UnicodeError):
        raise ConfigurationError("what a call template leads to is not a URL", sent=False) from None


class Sender:
    def __init__(self, name: str, config: UtcpConfig) -> None:
        self._name = name
        self._config = config
        self.reach = Reach(
            # How long an answer may take is the call's to say.
            httpx2.Timeout(None, connect=config.connect_timeout),
            httpx2.Limits(max_connections=None, max_keepalive_connections=20),
        )

    async def check(self, url: httpx2.URL, *, remote: bool) -> None:
        """Refuse a place that must not be contacted, for whoever makes the connection elsewhere.
        `remote`: somebody elsewhere says to go there."""
        self._check_scheme(url)
        if remote and not self._config.allow_private and await leads_inside(str(url)):
            raise self._inside(url)

    def client(self, *, remote: bool) -> httpx2.AsyncClient:
        """For the requests of others, kept to the same places."""
        return self.reach.client(public_only=remote and not self._config.allow_private)

    def _check_scheme(self, url: httpx2.URL) -> None:
        if url.scheme not in ("http", "https", "ws", "wss") or not url.host:
            raise ConfigurationError(
                f"{self._name!r} leads to an address that is not http(s) or ws(s)", sent=False
            )
        secure = "wss" if url.scheme == "ws" else "https"
        if url.scheme in ("http", "ws") and not is_loopback(url.host) and not self._config.allow_insecure:
            raise ConfigurationError(
                f"{self._name!r} leads to {url.scheme}://{url.host}, where others can listen",
                hint=f"use {secure}, or set sources.{self._name}.allow_insecure = true",
                sent=False,
            )

    def _inside(self, url: httpx2.URL) -> ConfigurationError:
        return ConfigurationError(
            f"{self._name!r} leads to {url.host}, which is on this machine or a private network",
            hint=f"set sources.{self._name}.allow_private = true if that is meant",
            sent=False,
        )

    @contextlib.asynccontextmanager
    async def exchange(
        self, prepared: Prepared, *, remote: bool, renew: Renew | None = None
    ) -> AsyncGenerator[httpx2.Response]:
        """Send it, and hand over the answer while it is still coming in."""
        first = url = url_of(prepared.url)
        public_only = remote and not self._config.allow_private
        hops = 0
        while True:
            response = await self._send(prepared, url, public_only)
            try:
                location = response.headers.get("location")
                if response.status_code == 401 and renew is not None and same_origin(str(url), str(first)):
                    await response.aclose()
                    prepared.headers["authorization"], renew = await renew(), None
                elif response.status_code in _REDIRECTS and location:
                    hops += 1
                    if hops > MAX_REDIRECTS:
                        raise ServerError(f"{self._name!r} redirected more than {MAX_REDIRECTS} times")
                    following = self._redirected(prepared, response.status_code, url, location)
                    if (
                        not public_only
                        and not self._config.allow_private
                        and not same_origin(str(following), str(url))
                    ):
                        # A server on the outside cannot lead to what only this machine reaches.
                        public_only = not await self.reach.is_from_inside(response)
                    url = following
                else:
                    yield response
                    return
            finally:
                await response.aclose()

    async def chunks(self, response: httpx2.Response, limit: int | None = None) -> AsyncIterator[bytes]:
        """What comes in, until it is too much."""
        limit, size = limit or self._config.max_result_size, 0
        try:
            async for chunk in response.aiter_bytes():
                size += len(chunk)
                if size > limit:
                    raise ResultTooLargeError(
                        f"{self._name!r}: the answer is larger than {limit} bytes",
                        hint=f"ask for less, or raise sources.{self._name}.max_result_size",
                        status=response.status_code,
                    )
                yield chunk
        except httpx2.DecodingError as error:
            raise ServerError(f"{self._name!r} sent an answer that cannot be unpacked: {error}") from error
        except httpx2.TransportError as error:
            raise ConnectionFailedError(
                f"lost {self._name!r} while it answered: {str(error) or type(error).__name__}"
            ) from error

    async def body(self, response: httpx2.Response) -> bytes:
        return b"".join([chunk async for chunk in self.chunks(response)])

    async def _send(self, prepared: Prepared, url: httpx2.URL, public_only: bool) -> httpx2.Response:
        self._check_scheme(url)
        try:
            return await self.reach.send(
                prepared.method,
                url,
                public_only=public_only,
                headers=prepared.headers,
                content=prepared.content,
            )
        except InsideError:
            raise self._inside(url) from None
        except httpx2.TransportError as error:
            raise ConnectionFailedError(
                f"cannot reach {self._name!r} at {url.host}: {str(error) or type(error).__name__}",
                hint="check that its server is there",
                sent=not isinstance(error, CONNECT_FAILURES),
            ) from error

    def _redirected(self, prepared: Prepared, status: int, url: httpx2.URL, location: str) -> httpx2.URL:
        """Where to go on, with the request made what it must be there."""
        try:
            following = url.join(location)
        except httpx2.InvalidURL:
            raise ServerError(f"{self._name!r} redirects to what is not a URL") from None
        if status == 303 or (status in (301, 302) and prepared.method == "POST"):
            prepared.method, prepared.content = "GET", None
            prepared.headers.pop("content-type", None)
        if not same_origin(str(following), str(url)):
            prepared.headers = {name: value for name, value in prepared.headers.items() if name in _HARMLESS}
        return following
