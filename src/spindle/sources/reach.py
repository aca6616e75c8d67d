"""Where requests may go. A name is resolved once: the addresses that were checked are those connected.

Checking a name first and letting the HTTP library resolve it again would leave a gap in which a hostile
name server changes its answer. Here the check is part of making a connection. TLS still asks for the
name, since only the socket's address is replaced, and a pool of connections never mixes those that were
checked with those that were not.
"""

from __future__ import annotations

import urllib.request
from collections.abc import Iterable, Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, cast

import httpcore2
import httpx2

from spindle.http import addresses
from spindle.sources import http

PATIENCE_PER_ADDRESS = 3.0
"""Seconds for one of several addresses of a host, before the next is tried."""


class InsideError(Exception):
    """A request that may go to public addresses only would have gone elsewhere."""

    def __init__(self, host: str) -> None:
        super().__init__(f"{host} is on this machine or a private network")
        self.host = host


class Reach:
    """The HTTP clients of one session: one that goes anywhere, one that keeps to public addresses."""

    def __init__(self, timeout: httpx2.Timeout, limits: httpx2.Limits = httpx2.Limits()) -> None:  # noqa: B008 - frozen
        self._timeout = timeout
        self._limits = limits
        self._clients: dict[bool, httpx2.AsyncClient] = {}
        # A proxy resolves names by itself. All that is left to us then is to look before each request.
        self._proxied = not {"http", "https", "all"}.isdisjoint(urllib.request.getproxies())

    async def aclose(self) -> None:
        for client in self._clients.values():
            await client.aclose()

    async def send(
        self,
        method: str,
        url: httpx2.URL,
        *,
        public_only: bool,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        timeout: httpx2.Timeout | None = None,
    ) -> httpx2.Response:
        """A response to be read and closed by who asked for it. Redirects are not followed."""
        if public_only and self._proxied and await addresses.leads_inside(str(url)):
            raise InsideError(url.host)
        client = self.client(public_only=public_only)
        # The library takes text for ASCII only; UTF-8 is what servers read today.
        written = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        request = client.build_request(
            method, url, headers=written, content=content, timeout=timeout or self._timeout
        )
        return await client.send(request, stream=True)

    async def is_from_inside(self, response: httpx2.Response) -> bool:
        """Whether this machine or a network of its own answered."""
        if self._proxied:
            return await addresses.leads_inside(str(response.url))
        stream = response.extensions.get("network_stream")
        try:
            address: Any = stream.get_extra_info("server_addr") if stream is not None else None
        except OSError:
            # The connection is gone, and with it what it led to.
            address = None
        return address is not None and addresses.is_inside(str(address[0]))

    def client(self, *, public_only: bool) -> httpx2.AsyncClient:
        """For requests that are sent by somebody else's code."""
        public_only = public_only and not self._proxied
        client = self._clients.get(public_only)
        if client is None:
            transport = _PublicTransport(self._limits) if public_only else None
            client = self._clients[public_only] = httpx2.AsyncClient(
                verify=http.shared_ssl_context(),
                timeout=self._timeout,
                limits=self._limits,
                transport=transport,
                cookies=_no_cookies(),
            )
        return client


def _no_cookies() -> CookieJar:
    """Users without credentials of their own share a session; what the API sets for one must not be sent
    for another."""
    return CookieJar(DefaultCookiePolicy(allowed_domains=[]))


class _PublicTransport(httpx2.AsyncHTTPTransport):
    def __init__(self, limits: httpx2.Limits) -> None:
        super().__init__(verify=http.shared_ssl_context(), limits=limits)
        # The class has no argument for the network below the pool.
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=http.shared_ssl_context(),
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            network_backend=_PublicBackend(),
        )


class _PublicBackend(httpcore2.AsyncNetworkBackend):
    def __init__(self) -> None:
        # Its module makes up another class of that name where anyio is missing.
        self._network = cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        found = await addresses.addresses_of(host)
        if not found:
            raise httpcore2.ConnectError(f"there is no host {host}")
        if any(addresses.is_inside(address) for address in found):
            raise InsideError(host)
        *others, last = found
        for address in others:
            patience = PATIENCE_PER_ADDRESS if timeout is None else min(timeout, PATIENCE_PER_ADDRESS)
            try:
                return await self._network.connect_tcp(address, port, patience, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await self._network.connect_tcp(last, port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)
