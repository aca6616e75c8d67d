"""The HTTP library kept to public addresses: all that leans on its insides is here, and is checked.

TLS still asks for the name, since only the address of the socket is replaced.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, cast

import httpcore2
import httpx2

from spindle.http.public import PATIENCE_PER_ADDRESS, public_addresses

if TYPE_CHECKING:
    import ssl


def public_transport(context: ssl.SSLContext, limits: httpx2.Limits) -> httpx2.AsyncHTTPTransport:
    """Makes what a client sends its requests through, with our network below its pool of connections."""
    transport = httpx2.AsyncHTTPTransport(verify=context, limits=limits)
    # The class has no argument for the network below the pool.
    _require(isinstance(getattr(transport, "_pool", None), httpcore2.AsyncConnectionPool))
    backend = _PublicBackend()
    pool = httpcore2.AsyncConnectionPool(
        ssl_context=context,
        max_connections=limits.max_connections,
        max_keepalive_connections=limits.max_keepalive_connections,
        keepalive_expiry=limits.keepalive_expiry,
        network_backend=backend,
    )
    transport._pool = pool  # pyright: ignore[reportPrivateUsage]
    _require(getattr(pool, "_network_backend", None) is backend)
    return transport


def require_pinned(client: httpx2.AsyncClient) -> None:
    """Raises RuntimeError unless every connection of a client goes through our network."""
    pool = getattr(getattr(client, "_transport", None), "_pool", None)
    _require(isinstance(getattr(pool, "_network_backend", None), _PublicBackend))
    _require(not getattr(client, "_mounts", True))


def _require(holds: bool) -> None:
    if not holds:
        raise RuntimeError(
            f"httpx2 {version('httpx2')} with httpcore2 {version('httpcore2')} does not make its connections"
            " where Spindle checks their addresses: requests could reach private networks, so none is made."
            " Install the versions that Spindle's own requirements name."
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
        found = await public_addresses(host)
        if not found:
            raise httpcore2.ConnectError(f"there is no host {host}")
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
