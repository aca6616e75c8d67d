"""The insides of FastStream, and of the clients below it, that links lean on."""

from __future__ import annotations

import importlib.metadata
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import spindle
from spindle.sources.events.links import faststream_insides

BROKERS = {
    "nats": ("faststream.nats", "NatsBroker"),
    "redis": ("faststream.redis", "RedisBroker"),
    "kafka": ("faststream.confluent", "KafkaBroker"),
    "rabbitmq": ("faststream.rabbit", "RabbitBroker"),
    "mqtt": ("faststream.mqtt", "MQTTBroker"),
}


def broker_of(extra: str) -> Any:
    module, name = BROKERS[extra]
    return getattr(pytest.importorskip(module, reason=f"needs the extra {extra!r}"), name)


def changed(what: str, package: str = "faststream") -> str:
    return f"{package} {importlib.metadata.version(package)}: {what}, which faststream_insides leans on"


@pytest.mark.parametrize("extra", sorted(BROKERS))
def test_a_broker_connects_by_a_method_that_can_be_replaced_and_keeps_its_client(extra: str) -> None:
    broker = broker_of(extra)()
    assert "_connect" in dir(broker), changed(f"the broker of {extra} has no _connect()")
    bases = [base for base in type(broker).__mro__ if "connect" in vars(base)]
    connecting = "".join(inspect.getsource(vars(base)["connect"]) for base in bases)
    assert "self._connect()" in connecting, changed(f"the broker of {extra} does not connect by _connect()")
    assert hasattr(broker, "_connection_kwargs"), changed(f"the broker of {extra} has no _connection_kwargs")
    assert faststream_insides.client_of(broker) is None


def test_a_nats_broker_takes_a_client_that_was_made_for_it() -> None:
    broker = broker_of("nats")()
    assert list(inspect.signature(broker.config.connect).parameters) == ["connection"], changed(
        "config.connect() of the broker of nats takes something else than a client"
    )
    assert "_transport" in inspect.getsource(importlib.import_module("nats.aio.client").Client), changed(
        "a client has no _transport", "nats-py"
    )


def test_a_rabbitmq_subscriber_tells_its_queue_and_consumer() -> None:
    broker = broker_of("rabbitmq")()
    subscriber = broker.subscriber("q")
    source = inspect.getsource(type(subscriber).__mro__[1]) + inspect.getsource(type(subscriber))
    for name in ("_queue_obj", "_consumer_tag"):
        assert hasattr(subscriber, name), changed(f"a subscriber of rabbitmq has no {name}")
    assert "_queue_obj.cancel(self._consumer_tag)" in source, changed(
        "a subscriber of rabbitmq stops otherwise"
    )


def test_a_redis_pool_tells_its_connections() -> None:
    broker_of("redis")
    from redis.asyncio import Redis

    assert faststream_insides.redis_connections(Redis()) == []


def test_a_kafka_broker_tells_the_settings_of_its_consumers() -> None:
    broker = broker_of("kafka")("somewhere:9092")
    settings = faststream_insides.kafka_consumer_settings(broker)
    assert settings["bootstrap.servers"] == "somewhere:9092", changed("consumers have other settings")


def test_an_mqtt_broker_encodes_by_a_codec_of_its_producer() -> None:
    broker = broker_of("mqtt")()
    source = inspect.getsource(type(broker.config.producer))
    assert "codec" in source, changed("the producer of mqtt has no codec")


def test_nothing_else_reaches_into_brokers() -> None:
    folder = Path(spindle.__file__).parent / "sources" / "events"
    private = re.compile(r"(broker|client|pool|connection)\._[a-z]|broker\.config\b")
    files = [file for file in folder.rglob("*.py") if private.search(file.read_text("utf-8"))]
    assert [file.name for file in files] == ["faststream_insides.py"]
