"""MQTT. An event is published with QoS 1, or higher if its binding says so, and the broker's PUBACK is
awaited."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

import zmqtt
from faststream.mqtt import MQTTBroker

from spindle.domain.call import new_id
from spindle.domain.json_schema import JsonObject
from spindle.sources.events.links.broker import BrokerLink
from spindle.sources.events.links.faststream_insides import client_of, close_mqtt_socket, encode_by
from spindle.sources.events.links.port import Incoming, Outgoing
from spindle.sources.events.links.target import Target

# Bad user or password, and not authorised, in both versions of the protocol.
_REFUSALS = (4, 5, 134, 135)


class _Typed(bytes):
    """A body with its content type."""

    content_type: str | None = None


class _Codec:
    async def encode(self, msg: Any, serializer: Any = None) -> tuple[bytes, str | None]:
        return bytes(msg), getattr(msg, "content_type", None)


class MqttLink(BrokerLink):
    """A link to an MQTT broker."""

    prefix = ""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._old = str(target.endpoint.version or "5").startswith("3")
        self.has_headers = not self._old  # pyright: ignore[reportIncompatibleUnannotatedOverride]

    def make(self) -> MQTTBroker:
        from faststream.security import SASLPlaintext

        target = self.target
        parts = target.endpoint.parts
        scheme = "mqtts" if target.endpoint.secure else "mqtt"
        return MQTTBroker(
            f"{scheme}://{parts.netloc}",
            security=SASLPlaintext(*target.login, use_ssl=target.endpoint.secure) if target.login else None,
            client_id=f"spindle-{new_id()[:12]}",
            version="3.1.1" if self._old else "5.0",
            mqtt_connect_timeout=target.connect_timeout,
            reconnect=zmqtt.ReconnectConfig(enabled=False),
            logger=None,
            apply_types=False,
        )

    async def started(self) -> None:
        # Only for sending: a codec of the broker would also replace the one of subscribers.
        encode_by(self.broker, _Codec())

    def refuses(self, error: BaseException) -> bool:
        return isinstance(error, zmqtt.MQTTConnectError) and error.return_code in _REFUSALS

    async def send(self, message: Outgoing, headers: dict[str, str], body: bytes) -> JsonObject:
        quality = max(1, _quality(message.bindings))
        typed = _Typed(body)
        typed.content_type = headers.pop("content-type", None)
        if self._old:
            headers = {}
        await self.broker.publish(
            typed,
            message.address,
            qos=zmqtt.QoS(quality),
            retain=message.bindings.get("retain") is True,
            headers=headers or None,
            correlation_id=message.event.extensions.get("correlationid") or message.event.id,
            reply_to=message.reply_to or "",
        )
        return {"qos": quality}

    async def leave(self, broker: Any, broken: bool) -> None:
        client = client_of(broker)
        try:
            await broker.stop()
        finally:
            close_mqtt_socket(client)

    @contextlib.asynccontextmanager
    async def subscribe(
        self, address: str, bindings: Mapping[str, Any]
    ) -> AsyncGenerator[AsyncIterator[Incoming]]:
        # On its own connection: the client ignores a second subscription to a topic.
        own = MqttLink(self.target)
        await own.connect()
        try:
            async with super(MqttLink, own).subscribe(address, bindings) as incoming:
                yield incoming
        finally:
            await own.close()

    async def listen(self, address: str, bindings: Mapping[str, Any], decoder: Any) -> Any:
        return self.broker.subscriber(
            address, qos=zmqtt.QoS(max(1, _quality(bindings))), decoder=decoder, persistent=False
        )

    def channel_of(self, message: Any) -> str | None:
        return str(message.raw_message.topic)


def _quality(bindings: Mapping[str, Any]) -> int:
    given = bindings.get("qos", 1)
    return given if given in (0, 1, 2) else 1
