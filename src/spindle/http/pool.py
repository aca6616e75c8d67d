"""The connections of one client: made where it is said to which addresses, kept for a moment, used again.

A connection belongs to a place: a host and port, whether its address was checked, the proxy in between. It is
never used for another place.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from spindle.http.answer import HttpAnswer
from spindle.http.connection import ServerConnection
from spindle.http.credentials import basic_header
from spindle.http.public import connect_anywhere, connect_public
from spindle.http.request import Prepared
from spindle.http.tls import shared_ssl_context
from spindle.http.urls import Url, read_url
from spindle.http.writing import decoded_user, written_head

if TYPE_CHECKING:
    import socket

KEPT_FOR = 5.0
"""Seconds for which a connection is kept that nobody uses."""
FAREWELL = 3
"""Turns of the event loop in which a server in this same process hears of the end of its connections, before
whoever closes a client goes on and perhaps ends the loop."""


class Place(NamedTuple):
    """The server that a connection leads to, and by which way."""

    scheme: str
    host: str
    port: int
    public_only: bool
    """True if only public addresses may be connected."""
    proxy: str | None


class ProxyRefusedError(OSError):
    """A proxy that makes no connection for us."""


class ConnectionPool:
    """Connections in use, and those that rest."""

    def __init__(self) -> None:
        self._resting: dict[Place, list[ServerConnection]] = {}
        self._places: dict[ServerConnection, Place] = {}
        self._sweeping: asyncio.TimerHandle | None = None

    async def aclose(self) -> None:
        """Ends all of them, those in use too, and waits until they have ended."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        self._resting.clear()
        open_still = list(self._places)
        self._places.clear()
        for connection in open_still:
            connection.drop()
        await asyncio.gather(*(connection.lost for connection in open_still))
        for _ in range(FAREWELL):
            await asyncio.sleep(0)

    def kept(self, place: Place) -> ServerConnection | None:
        """A connection to a place that can be used at once, if there is one."""
        resting = self._resting.get(place)
        while resting:
            connection = resting.pop()
            if connection.is_fresh():
                return connection
            connection.drop()
        return None

    async def connect(self, place: Place, timeout: float) -> ServerConnection:
        """A new connection. Raises InsideError, OSError, or TimeoutError."""
        made: ServerConnection | None = None
        try:
            async with asyncio.timeout(timeout):
                if place.proxy is not None:
                    made = await self._through(place, read_url(place.proxy))
                else:
                    connect = connect_public if place.public_only else connect_anywhere
                    made = await self._opened(await connect(place.host, place.port), place.scheme, place.host)
        except BaseException:
            if made is not None:
                made.drop()
            raise
        self._places[made] = place
        return made

    async def _opened(self, made: socket.socket, scheme: str, host: str) -> ServerConnection:
        """A connection over a socket, in secret where that is wanted: TLS asks for the name of the host."""
        secret = shared_ssl_context() if scheme == "https" else None
        connection = ServerConnection(self._rest, self._forget)
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: connection, sock=made, ssl=secret, server_hostname=host if secret else None
            )
        except BaseException:
            made.close()
            raise
        return connection

    async def _through(self, place: Place, proxy: Url) -> ServerConnection:
        made = await connect_anywhere(proxy.host, proxy.effective_port or 80)
        connection = await self._opened(made, proxy.scheme, proxy.host)
        if place.scheme == "https":
            try:
                await self._tunnel(connection, place, proxy)
            except BaseException:
                connection.drop()
                raise
        return connection

    async def _tunnel(self, connection: ServerConnection, place: Place, proxy: Url) -> None:
        """Has a proxy connect us with a place, and speaks in secret from there on."""
        host = f"[{place.host}]" if ":" in place.host else place.host
        target = f"{host}:{place.port}"
        headers = {"host": target, **proxy_headers(proxy)}
        answer = HttpAnswer(Prepared("CONNECT", target, headers), proxy, connection)
        head = written_head("CONNECT", target, headers, None)
        await connection.send(head, None, answer, no_body=True)
        await connection.answered(answer)
        if answer.failure is not None or not 200 <= answer.status < 300:
            said = answer.failure or f"it answered with HTTP status {answer.status}"
            raise ProxyRefusedError(f"the proxy makes no connection: {said}")
        transport = await asyncio.get_running_loop().start_tls(
            connection.transport, connection, shared_ssl_context(), server_hostname=place.host
        )
        assert transport is not None
        connection.use(transport)

    # --- what connections tell

    def _rest(self, connection: ServerConnection) -> None:
        place = self._places.get(connection)
        if place is None:
            return  # a tunnel that is being made, or the client is closed
        loop = asyncio.get_running_loop()
        connection.rests_since = loop.time()
        resting = self._resting.get(place)
        if resting is None:
            resting = self._resting[place] = []
        resting.append(connection)
        if self._sweeping is None:
            self._sweeping = loop.call_later(KEPT_FOR, self._sweep)

    def _forget(self, connection: ServerConnection) -> None:
        place = self._places.pop(connection, None)
        resting = self._resting.get(place) if place is not None else None
        if resting is not None and connection in resting:
            resting.remove(connection)

    def _sweep(self) -> None:
        """Ends those that nobody has used for long."""
        loop = asyncio.get_running_loop()
        self._sweeping = None
        oldest = loop.time() - KEPT_FOR
        for place, resting in list(self._resting.items()):
            for connection in [item for item in resting if item.rests_since <= oldest]:
                resting.remove(connection)
                connection.drop()
            if not resting:
                del self._resting[place]
        if self._resting:
            self._sweeping = loop.call_later(KEPT_FOR / 4, self._sweep)


def proxy_headers(proxy: Url) -> dict[str, str]:
    """The headers by which a proxy knows us."""
    return {"proxy-authorization": basic_header(*decoded_user(proxy))} if proxy.user else {}
