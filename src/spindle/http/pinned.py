"""The HTTP library, set up as we need it: all that leans on its insides is here, and is checked.

Names are resolved by us. Where only public addresses may be contacted, what a name leads to is checked where
it is resolved, and each address once more where its socket is made: the library asks no name server itself.
TLS still asks for the name, since only the address of the socket is chosen here.
"""

from __future__ import annotations

import select
import socket
import weakref
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from spindle.http import addresses
from spindle.http.failures import InsideError
from spindle.http.public import public_addresses

if TYPE_CHECKING:
    from aiohttp.connector import Connection

    from spindle.http.cookies import SessionCookies

KEPT_FOR = 5.0
"""Seconds for which a connection is kept that nobody uses."""
MAX_HEADER = 64 * 1024
MAX_HEADERS = 256


class StaleConnectionError(aiohttp.ClientConnectionError):
    """A kept connection that its server has closed. Nothing was sent over it."""


class LibraryResponse(aiohttp.ClientResponse):
    """An answer that knows which address it came from: a connection that is over no longer tells."""

    peer: str | None = None

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        transport = connection.transport
        address: Any = transport.get_extra_info("peername") if transport is not None else None
        self.peer = str(address[0]) if address else None
        return await super().start(connection)


_used: weakref.WeakSet[object] = weakref.WeakSet()
"""The connections that were used once."""


class _Request(aiohttp.ClientRequest):
    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        # The end of a connection may have come while the event loop was busy. Whatever is written to it now
        # would be lost, and nobody could say whether it had arrived.
        protocol, transport = conn.protocol, conn.transport
        if protocol in _used and transport is not None:
            made = transport.get_extra_info("socket")
            if made is not None and _is_readable(made.fileno()):
                raise StaleConnectionError("the server has closed the connection")
        elif protocol is not None:
            _used.add(protocol)
        return await super().send(conn)


class _Resolver(AbstractResolver):
    """Asks the system for the addresses of a name."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await self.addresses_of(host)
        if not found:
            raise OSError(f"there is no host {host}")
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in found
        ]

    async def addresses_of(self, host: str) -> list[str]:
        return await addresses.addresses_of(host)

    async def close(self) -> None:
        """There is nothing to close."""


class PublicResolver(_Resolver):
    """Refuses names of which any address is not public."""

    async def addresses_of(self, host: str) -> list[str]:
        return await public_addresses(host)


def public_socket(info: tuple[Any, ...]) -> socket.socket:
    """Makes the socket for an address; raises InsideError for one that is not public."""
    family, kind, protocol, _, address = info
    if addresses.is_inside(str(address[0])):
        raise InsideError(str(address[0]))
    return socket.socket(family, kind, protocol)


def open_library(
    *, public_only: bool, connect_timeout: float, cookies: SessionCookies | None
) -> aiohttp.ClientSession:
    """Makes what requests are sent with. With `public_only` every connection goes to a checked address."""
    connector = aiohttp.TCPConnector(
        resolver=PublicResolver() if public_only else _Resolver(),
        socket_factory=public_socket if public_only else None,
        # Whoever connects asks anew, and what a name led to before counts for nothing.
        use_dns_cache=False,
        limit=0,
        keepalive_timeout=KEPT_FOR,
    )
    session = aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar() if cookies is None else cookies,
        request_class=_Request,
        response_class=LibraryResponse,
        # How long an answer may take is for each request to say.
        timeout=aiohttp.ClientTimeout(total=None, connect=connect_timeout),
        # By default it would say what bytes are, and ask for what we do not unpack.
        skip_auto_headers=("Content-Type", "User-Agent", "Accept-Encoding"),
        auto_decompress=False,
        max_line_size=MAX_HEADER,
        max_field_size=MAX_HEADER,
        max_headers=MAX_HEADERS,
    )
    _send_once(session)
    if public_only:
        require_pinned(session)
    return session


def _send_once(session: aiohttp.ClientSession) -> None:
    """Never twice what might have had an effect: the library would send some requests again when their
    connection breaks."""
    _require(hasattr(session, "_retry_connection"))
    session._retry_connection = False  # pyright: ignore[reportPrivateUsage]


def require_pinned(session: aiohttp.ClientSession) -> None:
    """Raises RuntimeError unless every connection of a session goes to an address that we check."""
    connector = session.connector
    _require(isinstance(getattr(connector, "_resolver", None), PublicResolver))
    _require(getattr(connector, "_socket_factory", None) is public_socket)
    _require(getattr(connector, "use_dns_cache", True) is False)
    _require(not session.trust_env and getattr(session, "_default_proxy", "") is None)


def _require(holds: bool) -> None:
    if not holds:
        raise RuntimeError(
            f"aiohttp {aiohttp.__version__} does not make its connections where Spindle checks their"
            " addresses: requests could reach private networks, so none is made. Install the version that"
            " Spindle's own requirements name."
        )


def _is_readable(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
