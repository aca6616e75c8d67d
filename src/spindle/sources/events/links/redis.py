"""Redis. An event is added to a stream, where it stays (XADD). With a channel binding such as `bindings:
{redis: {type: channel}}` it is published to the current listeners, or pushed to a list, instead."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from faststream.redis import RedisBroker, StreamSub
from faststream.redis.parser import BinaryMessageFormatV1, MessageFormat
from redis.exceptions import AuthenticationError, AuthorizationError, NoPermissionError

from spindle.domain.json_schema import JsonObject
from spindle.errors import ConfigurationError
from spindle.sources.events.links.broker import BrokerLink
from spindle.sources.events.links.faststream_insides import client_of, redis_connections
from spindle.sources.events.links.port import Outgoing


class _Raw(MessageFormat):
    """Sends the event without an envelope of FastStream, so that every consumer can read it."""

    @classmethod
    async def encode(cls, *, message: Any, **_: Any) -> bytes:  # pyright: ignore[reportIncompatibleMethodOverride]
        return bytes(message)

    @classmethod
    def parse(cls, data: bytes) -> tuple[bytes, dict[str, Any]]:
        # Messages of other FastStream programs have an envelope, with this header.
        if data.startswith(BinaryMessageFormatV1.IDENTITY_HEADER):
            return BinaryMessageFormatV1.parse(data)
        return data, {}


class RedisLink(BrokerLink):
    """A link to a Redis server."""

    has_headers = False

    def make(self) -> RedisBroker:
        from faststream.security import SASLPlaintext

        target = self.target
        login = target.login or (("default", target.token) if target.token else None)
        seconds = target.publish_timeout
        return RedisBroker(
            target.endpoint.url,
            security=SASLPlaintext(*login, use_ssl=target.endpoint.secure) if login else None,
            logger=None,  # pyright: ignore[reportArgumentType] - as all brokers of FastStream allow
            apply_types=False,
            message_format=_Raw,
            socket_connect_timeout=target.connect_timeout,
            # Reading a stream blocks on purpose, and we limit the wait for acknowledgements ourselves.
            socket_timeout=None,
            retry=_no_retries(),
            health_check_interval=max(1, int(seconds)),
        )

    def refuses(self, error: BaseException) -> bool:
        return isinstance(error, (AuthenticationError, AuthorizationError, NoPermissionError))

    async def started(self) -> None:
        await self._client.ping()

    async def send(self, message: Outgoing, headers: dict[str, str], body: bytes) -> JsonObject:
        match _kind(message.bindings):
            case "channel":
                heard = await self.broker.publish(body, channel=message.address)
                return {"channel": message.address, "receivers": int(heard)}
            case "list":
                length = await self.broker.publish(body, list=message.address)
                return {"list": message.address, "length": int(length)}
            case _:
                limit = message.bindings.get("maxlen")
                entry = await self.broker.publish(
                    body, stream=message.address, maxlen=limit if isinstance(limit, int) else None
                )
                return {"stream": message.address, "entry": entry.decode()}

    async def listen(self, address: str, bindings: Mapping[str, Any], decoder: Any) -> Any:
        match _kind(bindings):
            case "channel":
                return self.broker.subscriber(channel=address, decoder=decoder, persistent=False)
            case "list":
                return self.broker.subscriber(list=address, decoder=decoder, persistent=False)
            case _:
                # From the current last entry: "$" would be looked up at each read, and miss some.
                last = await self._client.xrevrange(address, count=1)
                since = last[0][0].decode() if last else "0-0"
                stream = StreamSub(address, last_id=since)
                return self.broker.subscriber(stream=stream, decoder=decoder, persistent=False)

    async def leave(self, broker: Any, broken: bool) -> None:
        client = client_of(broker)
        try:
            await broker.stop()
        finally:
            # A dead connection would keep the library from closing the others.
            for connection in redis_connections(client):
                with contextlib.suppress(Exception):
                    await connection.disconnect(nowait=True)

    @property
    def _client(self) -> Any:
        return client_of(self.broker)


def _no_retries() -> Any:
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff

    return Retry(NoBackoff(), 0)


def _kind(bindings: Mapping[str, Any]) -> str:
    kind = bindings.get("type", "stream")
    if kind not in ("stream", "channel", "list"):
        raise ConfigurationError(
            f"the channel's binding says redis.type is {kind!r}, and must say stream, channel or list",
            sent=False,
        )
    return str(kind)
