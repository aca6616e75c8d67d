"""WebSocket: one connection per channel. A pong after the event acknowledges it: frames arrive in order,
so the server has it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from websockets.exceptions import ConnectionClosed

from spindle.domain.json_schema import JsonObject
from spindle.errors import SpindleError
from spindle.http.failures import InsideError
from spindle.sources.events.addresses import url_of
from spindle.sources.events.cloudevents import decoded, encoded
from spindle.sources.events.links.port import EventLink, Inbox, Incoming, Outgoing
from spindle.sources.events.links.target import Target

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection


PINGS = 20.0
MAX_CONNECTIONS = 100


class WebSocketLink(EventLink):
    """Connections to the channels of one WebSocket server."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._connections: dict[str, _Connection] = {}
        self._opening = asyncio.Lock()

    async def publish(self, message: Outgoing) -> JsonObject:
        connection = await self._connected(message.address)
        # A frame has no place for attributes.
        envelope = "plain" if message.envelope == "binary" else message.envelope
        _, body = encoded(message.event, envelope, prefix="", escaped=False)
        await connection.send(body.decode())
        return {"pong": True}

    @contextlib.asynccontextmanager
    async def subscribe(
        self, address: str, bindings: Mapping[str, Any]
    ) -> AsyncGenerator[AsyncIterator[Incoming]]:
        connection = await self._connected(address)
        inbox = Inbox()
        connection.inboxes.add(inbox)
        try:
            if connection.lost is not None:
                inbox.end(connection.lost)
            yield inbox
        finally:
            connection.inboxes.discard(inbox)

    async def close(self) -> None:
        for connection in self._connections.values():
            await connection.close()

    async def _connected(self, address: str) -> _Connection:
        async with self._opening:
            known = self._connections.get(address)
            if known is not None and known.lost is None:
                self._connections[address] = self._connections.pop(address)  # the last is the newest
                return known
            if known is not None:
                await known.close()
            await self._make_room()
            self._connections[address] = made = _Connection(await self._open(address), self._target, address)
            return made

    async def _make_room(self) -> None:
        """Closes the oldest connections that nobody listens on: an address may hold what a caller wrote."""
        unused = [address for address, known in self._connections.items() if not known.inboxes]
        for address in unused[: max(0, len(self._connections) - MAX_CONNECTIONS + 1)]:
            await self._connections.pop(address).close()

    async def _open(self, address: str) -> ClientConnection:
        from spindle.http.websocket import open_websocket

        target = self._target
        url = url_of(target.endpoint.url, address)
        try:
            async with asyncio.timeout(target.connect_timeout):
                return await open_websocket(
                    target.endpoint.name, url, target.credential, headers=target.headers,
                    max_size=target.max_size, keep_alive=PINGS, public_only=target.public_only,
                )  # fmt: skip
        except InsideError:
            raise target.inside() from None
        except TimeoutError:
            raise target.unreachable(f"it was not ready within {target.connect_timeout:g} s") from None


class _Connection:
    def __init__(self, connection: ClientConnection, target: Target, address: str) -> None:
        self._connection = connection
        self._target = target
        self._address = address
        self.inboxes: set[Inbox] = set()
        self.lost: SpindleError | None = None
        self._reader = asyncio.create_task(self._read(), name=f"events of {address}")

    async def send(self, text: str) -> None:
        target = self._target
        timer = asyncio.timeout(target.publish_timeout)
        try:
            async with timer:
                await self._connection.send(text)
                await (await self._connection.ping())
        except TimeoutError:
            if not timer.expired():
                raise
            # A late pong must not acknowledge the next event.
            self.lost = target.not_acknowledged()
            raise target.not_acknowledged() from None
        except ConnectionClosed as closed:
            raise target.lost(closed) from None

    async def _read(self) -> None:
        reason = "the server closed the connection"
        try:
            async for payload in self._connection:
                body = payload.encode() if isinstance(payload, str) else payload
                event = decoded(body, {}, self._address)
                for inbox in list(self.inboxes):
                    inbox.put(Incoming(event, event.extensions.get("correlationid")))
        except ConnectionClosed as closed:
            reason = str(closed)
        self.lost = self._target.lost(reason)
        for inbox in list(self.inboxes):
            inbox.end(self._target.lost(reason))

    async def close(self) -> None:
        await self._connection.close()
        self._reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reader
