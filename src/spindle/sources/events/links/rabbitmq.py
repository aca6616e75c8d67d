"""RabbitMQ. An event is stored on disk and confirmed by the broker; an event that no queue takes is an
error."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from aio_pika import RobustConnection
from aio_pika.exceptions import AuthenticationError, DeliveryError, ProbableAuthenticationError
from aio_pika.exceptions import PublishError as ReturnedError
from faststream import AckPolicy
from faststream.rabbit import Channel, ExchangeType, RabbitBroker, RabbitExchange, RabbitQueue

from spindle.documents.refs import entries
from spindle.domain.json_schema import JsonObject
from spindle.errors import ServerError
from spindle.sources.events.links.broker import BrokerLink
from spindle.sources.events.links.faststream_insides import client_of, connect_with, stop_deliveries
from spindle.sources.events.links.port import Incoming, Outgoing

END_TIMEOUT = 1.0


def _end_when_refused(broker: RabbitBroker) -> None:
    """Has a broker close its connection when it cannot connect, or is told to stop trying: the library would
    try for ever in the background, and keep the program from ending."""
    made: list[RobustConnection] = []

    def keep(*args: Any, **rest: Any) -> RobustConnection:
        made.append(RobustConnection(*args, **rest))
        return made[-1]

    async def connect(own: Callable[[], Awaitable[Any]]) -> Any:
        try:
            return await own()
        except BaseException:
            for connection in made:
                await _end(connection)
            raise

    connect_with(broker, {"connection_class": keep}, connect)


async def _end(connection: RobustConnection) -> None:
    with contextlib.suppress(Exception):
        async with asyncio.timeout(END_TIMEOUT):
            await connection.close()


class RabbitLink(BrokerLink):
    """A link to a RabbitMQ broker."""

    prefix = "cloudEvents_"

    def make(self) -> RabbitBroker:
        from faststream.security import SASLPlaintext

        target = self.target
        broker = RabbitBroker(
            target.endpoint.url,
            security=SASLPlaintext(*target.login, use_ssl=target.endpoint.secure) if target.login else None,
            logger=None,
            apply_types=False,
            timeout=target.connect_timeout,
            default_channel=Channel(publisher_confirms=True, on_return_raises=True),
        )
        _end_when_refused(broker)
        return broker

    async def hush(self, subscriber: Any) -> None:
        await stop_deliveries(subscriber)

    async def leave(self, broker: Any, broken: bool) -> None:
        connection: RobustConnection | None = client_of(broker)
        try:
            if not broken:
                await broker.stop()
        finally:
            if connection is not None:
                await _end(connection)

    def refuses(self, error: BaseException) -> bool:
        return isinstance(error, (AuthenticationError, ProbableAuthenticationError))

    async def send(self, message: Outgoing, headers: dict[str, str], body: bytes) -> JsonObject:
        content_type = headers.pop("content-type", None)
        exchange, queue = _exchange(message.bindings), _queue(message.address, message.bindings)
        answered = message.event.extensions.get("correlationid")
        if exchange is None:
            await self.broker.declare_queue(queue)
        else:
            await self.broker.declare_exchange(exchange)
        try:
            await self.broker.publish(
                body,
                exchange=exchange,
                routing_key=queue.name if exchange is None else message.address,
                # An event to an exchange needs no subscribers.
                mandatory=exchange is None,
                persist=True,
                headers=headers,
                content_type=content_type,
                message_id=message.event.id,
                message_type=message.event.type,
                correlation_id=answered or message.event.id,
                reply_to=message.reply_to,
                timeout=self.target.publish_timeout,
            )
        except (DeliveryError, ReturnedError) as error:
            raise ServerError(
                f"{self.target.endpoint.shown} did not take the event: {error}", retryable=True
            ) from None
        return {"confirmed": True, "exchange": exchange.name if exchange else "", "queue": queue.name}

    async def listen(self, address: str, bindings: Mapping[str, Any], decoder: Any) -> Any:
        exchange = _exchange(bindings)
        if exchange is not None:
            # Our own queue, so that other subscribers receive the events too.
            queue = RabbitQueue("", routing_key=address, exclusive=True, auto_delete=True, durable=False)
        elif address.startswith("spindle.reply."):
            queue = RabbitQueue(address, exclusive=True, auto_delete=True, durable=False)
        else:
            queue = _queue(address, bindings)
        return self.broker.subscriber(
            queue, exchange, decoder=decoder, ack_policy=AckPolicy.MANUAL, persistent=False
        )

    def incoming(self, message: Any, address: str) -> Incoming:
        async def settle(taken: bool) -> None:
            if taken:
                await message.ack()
            else:
                await message.nack(requeue=True)

        return replace(super().incoming(message, address), settle=settle)


def _exchange(bindings: Mapping[str, Any]) -> RabbitExchange | None:
    """The exchange that the channel's binding names; None for the default one, which leads straight to
    queues."""
    given = entries(bindings.get("exchange"))
    name = given.get("name")
    if bindings.get("is") == "queue" or not isinstance(name, str) or not name:
        return None
    kind = str(given.get("type", "topic"))
    return RabbitExchange(
        name,
        type=ExchangeType.TOPIC if kind == "default" else ExchangeType(kind),
        durable=given.get("durable", True) is not False,
        auto_delete=given.get("autoDelete") is True,
    )


def _queue(address: str, bindings: Mapping[str, Any]) -> RabbitQueue:
    given = entries(bindings.get("queue"))
    name = given.get("name")
    return RabbitQueue(
        name if isinstance(name, str) and name else address,
        durable=given.get("durable", True) is not False,
        exclusive=given.get("exclusive") is True,
        auto_delete=given.get("autoDelete") is True,
    )
