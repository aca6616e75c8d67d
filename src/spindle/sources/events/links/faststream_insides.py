"""The insides of FastStream, and of the clients below it, that links lean on: nothing else touches them.

FastStream has no public names for them, so any version may change them: `test_faststream_insides.py` says
which did.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any


def client_of(broker: Any) -> Any:
    """Returns the connected client of the library below a broker; None before it is connected."""
    return broker._connection


def connect_by(broker: Any, connect: Callable[[dict[str, Any]], Awaitable[Any]]) -> None:
    """Lets `connect` make the client from the broker's options."""

    async def connected() -> Any:
        client = await connect(dict(broker._connection_kwargs))
        broker.config.connect(client)
        return client

    broker._connect = connected


def connect_with(
    broker: Any, options: dict[str, Any], connect: Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
) -> None:
    """Gives the broker further options for its client, and lets `connect` call its own way of connecting."""
    own = broker._connect
    broker._connection_kwargs = {**broker._connection_kwargs, **options}
    broker._connect = lambda: connect(own)


async def stop_deliveries(subscriber: Any) -> None:
    """Ends the consumer of a RabbitMQ subscriber. Its own `stop` first leaves unread what still arrives,
    which the queue then keeps for it until the connection ends."""
    queue, tag = subscriber._queue_obj, subscriber._consumer_tag
    if queue is not None and tag is not None and not queue.channel.is_closed:
        await queue.cancel(tag)
        subscriber._consumer_tag = None


def kafka_consumer_settings(broker: Any) -> dict[str, Any]:
    """Returns the settings of librdkafka that a broker's consumers have."""
    return dict(broker.config.connection_config.consumer_config)


def encode_by(broker: Any, codec: Any) -> None:
    """Lets a codec encode what an MQTT broker sends, and only that."""
    broker.config.producer.codec = codec


def close_mqtt_socket(client: Any) -> None:
    """Closes the socket of an MQTT client that was not let end, which the client would leave open."""
    transport = getattr(getattr(client, "_protocol", None), "_transport", None)
    if transport is not None:
        transport._writer.transport.abort()


def close_nats_socket(client: Any) -> None:
    """Closes the socket of a NATS client that could not connect, which the client would leave open."""
    transport = getattr(client, "_transport", None)
    if transport is not None:
        transport.close()


def redis_connections(client: Any) -> list[Any]:
    """Returns all connections of a Redis client."""
    pool = client.connection_pool
    return [*pool._available_connections, *pool._in_use_connections]
