"""Kafka, with librdkafka. An event is acknowledged by all replicas in sync (`acks=all`)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Partition
from faststream.confluent import KafkaBroker, TopicPartition

from spindle.domain.call import new_id
from spindle.domain.json_schema import JsonObject
from spindle.sources.events.links.broker import BrokerLink
from spindle.sources.events.links.faststream_insides import kafka_consumer_settings
from spindle.sources.events.links.port import Outgoing


class KafkaLink(BrokerLink):
    """A link to a Kafka cluster."""

    prefix = "ce_"

    def make(self) -> KafkaBroker:
        from faststream.security import BaseSecurity, SASLPlaintext

        target = self.target
        security: BaseSecurity | None = None
        if target.login is not None:
            security = SASLPlaintext(*target.login, use_ssl=target.endpoint.secure)
        elif target.endpoint.secure:
            security = BaseSecurity(use_ssl=True)
        return KafkaBroker(
            self._bootstrap,
            security=security,
            logger=None,
            apply_types=False,
            acks="all",
            enable_idempotence=True,
            # After this time librdkafka drops an event, so that none is sent after its caller has left.
            config={"message.timeout.ms": self._milliseconds},  # pyright: ignore[reportArgumentType]
        )

    async def started(self) -> None:
        if not await self.broker.ping(timeout=self.target.connect_timeout):
            raise self.target.unreachable("no broker answers")

    async def send(self, message: Outgoing, headers: dict[str, str], body: bytes) -> JsonObject:
        key = message.event.subject or message.event.id
        taken = await self.broker.publish(
            body, message.address, key=key.encode(), headers=headers, correlation_id=message.event.id
        )
        return {"topic": taken.topic(), "partition": taken.partition(), "offset": taken.offset()}

    async def listen(self, address: str, bindings: Mapping[str, Any], decoder: Any) -> Any:
        ends = await asyncio.to_thread(self._ends, address)
        options: dict[str, Any] = {
            "group_id": f"spindle-{new_id()[:12]}",
            "decoder": decoder,
            "persistent": False,
        }
        if not ends:
            # The topic is empty, so it begins now.
            return self.broker.subscriber(address, auto_offset_reset="earliest", **options)
        # Exact offsets: "the end" would be looked up some time after we confirmed the subscription.
        partitions = [
            TopicPartition(address, number, offset=offset, declare=False) for number, offset in ends.items()
        ]
        return self.broker.subscriber(partitions=partitions, **options)

    def _ends(self, topic: str) -> dict[int, int]:
        """The end offset of each partition."""
        settings = kafka_consumer_settings(self.broker)
        settings.pop("message.timeout.ms", None)
        settings["group.id"] = f"spindle-{new_id()[:12]}"
        consumer = Consumer(settings, logger=logging.getLogger("confluent_kafka"))
        try:
            seconds = self.target.publish_timeout
            found = consumer.list_topics(topic, timeout=seconds).topics.get(topic)
            if found is None or found.error is not None:
                return {}
            return {
                number: consumer.get_watermark_offsets(Partition(topic, number), timeout=seconds)[1]
                for number in found.partitions
            }
        except KafkaException as error:
            if error.args and isinstance(error.args[0], KafkaError):
                raise ConnectionError(error.args[0].str()) from error
            raise
        finally:
            consumer.close()

    @property
    def _milliseconds(self) -> int:
        return max(100, int(self.target.publish_timeout * 900))

    @property
    def _bootstrap(self) -> str:
        return self.target.endpoint.parts.netloc.rpartition("@")[2]
