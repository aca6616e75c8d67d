"""Real brokers: the same promises from each, and what is special about some.

NATS comes from PyPI and Kafka is librdkafka's mock cluster, so these run everywhere; Redis, RabbitMQ and
mosquitto, whose tests are marked `brokers`, run where they are installed (`make services`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from event_documents import Workspace, document

from servers import brokers
from servers.running import PATIENCE
from spindle.app import Spindle
from spindle.errors import (
    AuthError,
    CallTimeoutError,
    ConfigurationError,
    ConnectionFailedError,
    InvalidArgumentsError,
    SpindleError,
)

EMITTER = """
import asyncio, json, sys, spindle

async def main():
    async with spindle.open(sys.argv[1]) as app:
        result = await app.call("emit", {"n": 1})
        print(json.dumps(result.structured), flush=True)
        await asyncio.sleep(3600)

asyncio.run(main())
"""


@dataclass
class Running:
    """A broker, and how a consumer that knows nothing of us reads all that it holds."""

    protocol: str
    host: str
    address: str
    read: Callable[[str], list[dict[str, Any]]]
    broker: brokers.Broker | None = None

    def document(self, **more: Any) -> dict[str, Any]:
        server = {"host": self.host, "protocol": self.protocol}
        return document(**{"address": self.address, "server": server, **more})


# --- consumers of their own, in processes of their own where their library wants a loop


def read_jetstream(host: str, address: str) -> list[dict[str, Any]]:
    import nats

    async def read() -> list[dict[str, Any]]:
        client = await nats.connect(f"nats://{host}")
        stream = client.jetstream()
        kept = (await stream.stream_info(await stream.find_stream_name_by_subject(address))).state.messages
        subscription = await stream.subscribe(address, ordered_consumer=True)
        found = [json.loads((await subscription.next_msg(timeout=PATIENCE)).data) for _ in range(kept)]
        await client.close()
        return found

    return _elsewhere(read)


def read_redis(host: str, address: str) -> list[dict[str, Any]]:
    import redis

    with redis.Redis.from_url(f"redis://{host}") as client:
        return [json.loads(fields[b"__data__"]) for _, fields in client.xrange(address)]


def read_rabbit(host: str, address: str) -> list[dict[str, Any]]:
    import aio_pika

    async def read() -> list[dict[str, Any]]:
        connection = await aio_pika.connect(f"amqp://guest:guest@{host}/")
        async with connection:
            channel = await connection.channel()
            queue = await channel.get_queue(address)
            found = []
            while (message := await queue.get(fail=False, no_ack=True)) is not None:
                assert message.delivery_mode == aio_pika.DeliveryMode.PERSISTENT
                found.append(json.loads(message.body))
            return found

    return _elsewhere(read)


def read_kafka(host: str, address: str) -> list[dict[str, Any]]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": host, "group.id": "reader", "auto.offset.reset": "earliest"})
    try:
        found: list[dict[str, Any]] = []
        for number in consumer.list_topics(address, timeout=PATIENCE).topics[address].partitions:
            _, end = consumer.get_watermark_offsets(TopicPartition(address, number), timeout=PATIENCE)
            consumer.assign([TopicPartition(address, number, 0)])
            for _ in range(end):
                message = consumer.poll(PATIENCE)
                assert message is not None
                found.append(json.loads(message.value()))
        return found
    finally:
        consumer.close()


def _elsewhere(read: Any) -> Any:
    """Tests have a loop already."""
    import threading

    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(asyncio.run(read())))
    thread.start()
    thread.join(PATIENCE)
    return found[0]


def make_stream(host: str, address: str) -> None:
    import nats

    async def make() -> None:
        client = await nats.connect(f"nats://{host}")
        await client.jetstream().add_stream(name=address.replace(".", "_"), subjects=[address])
        await client.close()

    _elsewhere(make)


Started = Callable[[str], Running]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """Brokers that the tests of this file share: RabbitMQ takes long to start."""
    known: dict[str, tuple[str, brokers.Broker | None]] = {}
    starts: dict[str, Any] = {
        "nats": brokers.nats, "redis": brokers.redis, "amqp": brokers.rabbitmq, "mqtt": brokers.mosquitto,
    }  # fmt: skip
    readers = {"nats": read_jetstream, "redis": read_redis, "amqp": read_rabbit, "kafka": read_kafka}
    with contextlib.ExitStack() as stack:

        def get(protocol: str) -> Running:
            if protocol not in known and protocol == "kafka":
                known[protocol] = (stack.enter_context(brokers.kafka()), None)
            elif protocol not in known:
                made = stack.enter_context(starts[protocol](tmp_path_factory.mktemp(protocol) / "broker"))
                known[protocol] = (made.host, made)
            host, broker = known[protocol]
            if broker is not None:
                broker.revive()
            # An address of its own keeps each test's events apart.
            address = f"orders{'/' if protocol == 'mqtt' else '.'}{os.urandom(4).hex()}"
            read = readers.get(protocol, lambda *_: [])
            return Running(protocol, host, address, lambda wanted: read(host, wanted), broker)

        yield get


FROM_PYPI = {"nats", "kafka"}
ALL = ["nats", "redis", "amqp", "mqtt", "kafka"]
MORTAL = ["nats", "redis", "amqp", "mqtt"]
KEEPING = ["nats", "redis", "amqp", "kafka"]


@pytest.fixture
def running(request: pytest.FixtureRequest, start: Started) -> Iterator[Running]:
    made = start(request.param)
    yield made
    if made.broker is not None:
        made.broker.thaw()


def of(*protocols: str) -> Any:
    given = [pytest.param(each, marks=() if each in FROM_PYPI else pytest.mark.brokers) for each in protocols]
    return pytest.mark.parametrize("running", given, indirect=True)


async def until_heard(app: Spindle, task: asyncio.Task[Any], arguments: dict[str, Any]) -> Any:
    """Emit until the tool that waits has heard one: nobody tells us when its subscription stands."""
    async with asyncio.timeout(PATIENCE):
        while not task.done():
            await app.call("emit", arguments)
            await asyncio.wait([task], timeout=0.2)
    return task.result()


@of(*ALL)
async def test_an_event_is_acknowledged_and_heard(workspace: Workspace, running: Running) -> None:
    workspace.write("events/a.json", running.document())
    async with workspace.open() as app:
        first = (await app.call("emit", n=0)).structured
        assert first["server"] == "main"
        assert first["acknowledged"]
        waiting = asyncio.create_task(app.call("wait", filter={"n": 2}))
        event = (await until_heard(app, waiting, {"n": 2, "text": "ü"})).structured
    assert event["data"] == {"n": 2, "text": "ü"}
    assert event["channel"] == running.address
    assert event["type"] == "Placed"


@of("nats", "amqp", "mqtt", "kafka")
async def test_binary_mode_puts_the_attributes_into_headers(workspace: Workspace, running: Running) -> None:
    workspace.settings(envelope="binary")
    workspace.write("events/a.json", running.document())
    async with workspace.open() as app:
        await app.call("emit", n=0)
        waiting = asyncio.create_task(app.call("wait", filter={"n": 2}))
        event = (await until_heard(app, waiting, {"n": 2})).structured
    assert event["specversion"] == "1.0"
    assert (event["type"], event["source"], event["data"]) == ("Placed", "/spindle/events", {"n": 2})


@of(*KEEPING)
async def test_an_acknowledged_event_survives_its_emitter(workspace: Workspace, running: Running) -> None:
    if running.protocol == "nats":
        make_stream(running.host, running.address)
    workspace.write("events/a.json", running.document())
    emitter = await asyncio.create_subprocess_exec(
        sys.executable, "-c", EMITTER, str(workspace.root), stdout=subprocess.PIPE
    )
    assert emitter.stdout is not None
    said = json.loads(await asyncio.wait_for(emitter.stdout.readline(), PATIENCE))
    os.kill(emitter.pid, signal.SIGKILL)
    await emitter.wait()
    kept = await asyncio.to_thread(running.read, running.address)
    assert [(event["id"], event["data"]) for event in kept] == [(said["id"], {"n": 1})]


@of("nats", "redis", "amqp")
async def test_an_acknowledged_event_survives_the_broker_s_death_too(
    workspace: Workspace, running: Running
) -> None:
    assert running.broker is not None
    if running.protocol == "nats":
        make_stream(running.host, running.address)
    workspace.write("events/a.json", running.document())
    async with workspace.open() as app:
        await app.call("emit", n=1)
    running.broker.kill()
    await asyncio.to_thread(running.broker.start)
    kept = await asyncio.to_thread(running.read, running.address)
    assert [event["data"] for event in kept] == [{"n": 1}]


@of(*MORTAL)
async def test_a_dead_broker_is_an_error_and_a_new_one_is_found(
    workspace: Workspace, running: Running
) -> None:
    assert running.broker is not None
    workspace.settings(publish_timeout=20, retry={"attempts": 1})
    workspace.write("events/a.json", running.document())
    async with workspace.open() as app:
        await app.call("emit", n=1)
        running.broker.kill()
        for _ in range(2):
            with pytest.raises(ConnectionFailedError, match="main"):
                await app.call("emit", n=2)
        await asyncio.to_thread(running.broker.start)
        assert (await app.call("emit", n=3)).structured["acknowledged"]


@of(*MORTAL)
async def test_a_broker_that_does_not_acknowledge_is_an_error_in_time(
    workspace: Workspace, running: Running
) -> None:
    assert running.broker is not None
    workspace.settings(publish_timeout=1, retry={"attempts": 1})
    workspace.write("events/a.json", running.document())
    async with workspace.open() as app:
        # The first may take long on a busy machine.
        for _ in range(20):
            with contextlib.suppress(SpindleError):
                await app.call("emit", n=1)
                break
        running.broker.freeze()
        began = time.monotonic()
        with pytest.raises(CallTimeoutError, match="did not acknowledge the event within 1 s"):
            await app.call("emit", n=2)
        assert time.monotonic() - began < PATIENCE
        # And once it is known to be broken, a new connection is not waited for either.
        with pytest.raises(SpindleError):
            await app.call("emit", n=3)
        running.broker.thaw()


@of(*MORTAL)
async def test_a_broker_that_dies_while_it_is_waited_for_is_an_error(
    workspace: Workspace, running: Running
) -> None:
    assert running.broker is not None
    workspace.settings(publish_timeout=20, retry={"attempts": 1})
    workspace.write("events/a.json", running.document())
    async with workspace.open() as app:
        await app.call("emit", n=1)
        running.broker.freeze()
        calls = [asyncio.create_task(app.call("emit", n=number)) for number in range(5)]
        done, _ = await asyncio.wait(calls, timeout=0.5)
        assert not done
        running.broker.kill()
        for call in calls:
            with pytest.raises(SpindleError):
                await asyncio.wait_for(call, PATIENCE)


@of(*MORTAL)
async def test_a_broker_that_dies_ends_the_wait_for_an_event(workspace: Workspace, running: Running) -> None:
    """Otherwise it would be taken for silence."""
    assert running.broker is not None
    workspace.settings(timeout=100, retry={"attempts": 1})
    workspace.write("events/a.json", running.document())
    async with workspace.open() as app:
        first = asyncio.create_task(app.call("wait"))
        await until_heard(app, first, {"n": 1})
        waiting = asyncio.create_task(app.call("wait", filter={"n": 2}))
        # It is listening by the time that another subscription, begun later, has been served.
        await until_heard(app, asyncio.create_task(app.call("wait", filter={"n": 1})), {"n": 1})
        running.broker.kill()
        with pytest.raises(ConnectionFailedError, match="main"):
            await asyncio.wait_for(waiting, PATIENCE)


@pytest.mark.parametrize("protocol", ["nats", "redis", "amqp", "mqtt", "kafka"])
async def test_a_broker_that_is_not_there_is_an_error_in_time(workspace: Workspace, protocol: str) -> None:
    workspace.settings(publish_timeout=2, retry={"attempts": 1})
    server = {"host": f"127.0.0.1:{brokers.free_port()}", "protocol": protocol}
    workspace.write("events/a.json", document(address="orders", server=server))
    async with workspace.open() as app:
        began = time.monotonic()
        with pytest.raises(ConnectionFailedError, match=f"cannot reach main \\({protocol}://127"):
            await app.call("emit", n=1)
    assert time.monotonic() - began < PATIENCE


@of("nats", "redis", "amqp", "mqtt")
async def test_a_question_is_answered_by_who_knows_the_protocol_only(
    workspace: Workspace, running: Running
) -> None:
    """The answerer is FastStream itself, as in anybody's service."""
    if running.protocol == "redis":
        bindings = {"redis": {"type": "channel"}}
        content = running.document(bindings=bindings)
    else:
        content = running.document()
    content["operations"]["emit"]["reply"] = {}
    workspace.write("events/a.json", content)
    async with answering(running), workspace.open() as app:
        results = await asyncio.gather(*(app.call("emit", n=number) for number in range(3)))
    assert [result.structured["data"]["twice"] for result in results] == [0, 2, 4]


@contextlib.asynccontextmanager
async def answering(running: Running) -> Any:
    broker: Any
    options: dict[str, Any] = {"logger": None}
    if running.protocol == "nats":
        from faststream.nats import NatsBroker

        broker = NatsBroker(f"nats://{running.host}", **options)
    elif running.protocol == "redis":
        from faststream.redis import RedisBroker

        broker = RedisBroker(f"redis://{running.host}", **options)
    elif running.protocol == "amqp":
        from faststream.rabbit import RabbitBroker, RabbitQueue

        broker = RabbitBroker(f"amqp://guest:guest@{running.host}/", **options)
    else:
        from faststream.mqtt import MQTTBroker

        broker = MQTTBroker(f"mqtt://{running.host}", **options)
    where: Any = running.address
    if running.protocol == "amqp":
        where = RabbitQueue(running.address, durable=True)

    @broker.subscriber(where)
    async def answer(given: Any) -> dict[str, Any] | None:
        message = given if isinstance(given, dict) else json.loads(given)
        reply = {"twice": message["data"]["n"] * 2}
        if running.protocol == "redis":
            # FastStream's own way to say where to answer is not in a plain message; the event says it.
            await broker.publish(
                {"correlation_id": message["correlationid"], **reply}, channel=message["replyto"]
            )
            return None
        return reply

    async with broker:
        await broker.start()
        yield


# --- what is special


async def test_jetstream_takes_a_repeated_event_once(workspace: Workspace, tmp_path: Path) -> None:
    from spindle.domain.event import Event
    from spindle.domain.identity import NO_CREDENTIAL
    from spindle.sources.events.links.nats import NatsLink
    from spindle.sources.events.links.port import Outgoing
    from spindle.sources.events.links.target import Target
    from spindle.sources.events.servers import Endpoint

    with brokers.nats(tmp_path / "broker") as broker:
        make_stream(broker.host, "orders")
        where = Endpoint("main", "nats", f"nats://{broker.host}")
        link = NatsLink(Target("events", where, NO_CREDENTIAL, 10, 10, 1000))
        await link.connect()
        message = Outgoing(Event(type="a", source="b", data=1, channel="orders"))
        first, second = [await link.publish(message) for _ in range(2)]
        assert link.deduplicates(message)
        await link.close()
    assert (first["sequence"], first["duplicate"]) == (1, False)
    assert (second["sequence"], second["duplicate"]) == (1, True)


async def test_an_event_waits_for_a_server_that_is_slow_to_say_which_stream_takes_it(start: Started) -> None:
    """Sent as if there were none, it would seem to be acknowledged before it is stored."""
    from spindle.domain.event import Event
    from spindle.domain.identity import NO_CREDENTIAL
    from spindle.sources.events.links.nats import NatsLink
    from spindle.sources.events.links.port import Outgoing
    from spindle.sources.events.links.target import Target
    from spindle.sources.events.servers import Endpoint

    running = start("nats")
    assert running.broker is not None
    make_stream(running.host, running.address)
    where = Endpoint("main", "nats", f"nats://{running.host}")
    link = NatsLink(Target("events", where, NO_CREDENTIAL, 2 * PATIENCE, PATIENCE, 1000))
    await link.connect()
    running.broker.freeze()
    message = Outgoing(Event(type="a", source="b", data=1, channel=running.address))
    sending = asyncio.create_task(link.publish(message))
    await asyncio.wait([sending], timeout=2.5)
    running.broker.thaw()
    said = await sending
    await link.close()
    assert (said["stream"], said["sequence"]) == (running.address.replace(".", "_"), 1)


async def test_a_user_who_may_not_ask_for_streams_can_send_all_the_same(
    workspace: Workspace, tmp_path: Path
) -> None:
    config = tmp_path / "nats.conf"
    config.write_text(
        "authorization { users: [ { user: ann, password: pw,"
        ' permissions: { publish: { deny: "$JS.API.>" } } } ] }\n'
    )
    with brokers.nats(tmp_path / "broker", "-c", str(config)) as broker:
        server = {"host": broker.host, "protocol": "nats"}
        workspace.write("events/a.json", document(address="orders", server=server))
        workspace.settings(
            auth={"type": "basic", "username": "ann", "password": "pw"},
            publish_timeout=100,
            retry={"attempts": 1},
        )
        async with workspace.open() as app:
            for _ in range(2):
                said = await app.call("emit", n=1)
                assert said.structured["acknowledged"] == {"stream": None}


@pytest.mark.brokers
async def test_redis_channels_and_lists_where_the_binding_says_so(
    workspace: Workspace, tmp_path: Path
) -> None:
    with brokers.redis(tmp_path / "broker") as broker:
        server = {"host": broker.host, "protocol": "redis"}
        for kind in ("channel", "list"):
            content = document(address=kind, server=server, bindings={"redis": {"type": kind}})
            workspace.write("events/a.json", content)
            async with workspace.open() as app:
                said = (await app.call("emit", n=1)).structured["acknowledged"]
                waiting = asyncio.create_task(app.call("wait"))
                event = (await until_heard(app, waiting, {"n": 1})).structured
                assert event["data"] == {"n": 1}
                assert said == (
                    {"channel": "channel", "receivers": 0}
                    if kind == "channel"
                    else {"list": "list", "length": 1}
                )
        workspace.write("events/a.json", document(server=server, bindings={"redis": {"type": "set"}}))
        async with workspace.open() as app:
            with pytest.raises(ConfigurationError, match="stream, channel or list"):
                await app.call("emit", n=1)


@of("amqp")
async def test_an_exchange_gives_everybody_a_copy(workspace: Workspace, running: Running) -> None:
    bindings = {"amqp": {"is": "routingKey", "exchange": {"name": "shop", "type": "topic"}}}
    workspace.write("events/a.json", running.document(bindings=bindings))
    async with workspace.open() as app:
        await app.call("emit", n=0)
        two = [asyncio.create_task(app.call("wait", filter={"n": 1})) for _ in range(2)]
        await until_heard(app, two[0], {"n": 1})
        await until_heard(app, two[1], {"n": 1})
        assert [task.result().structured["data"] for task in two] == [{"n": 1}] * 2


@of("amqp")
async def test_what_a_waiting_tool_passes_over_stays_in_the_queue(
    workspace: Workspace, running: Running
) -> None:
    workspace.write("events/a.json", running.document())
    async with workspace.open() as app:
        for number in (1, 2, 3):
            await app.call("emit", n=number)
        found = await app.call("wait", filter={"n": 2})
        assert found.structured["data"] == {"n": 2}
    left = await asyncio.to_thread(running.read, running.address)
    assert sorted(event["data"]["n"] for event in left) == [1, 3]


@of("amqp")
async def test_what_was_passed_over_is_there_for_others_at_once(
    workspace: Workspace, running: Running
) -> None:
    """Given back while it was still subscribed, it would come again, and be kept for as long as we live."""
    workspace.write("events/a.json", running.document())
    async with workspace.open() as app:
        for _ in range(5):
            for number in range(20):
                await app.call("emit", n=number)
            await app.call("wait", filter={"n": 10})
            left = await asyncio.to_thread(running.read, running.address)
            assert sorted(event["data"]["n"] for event in left) == [n for n in range(20) if n != 10]


async def test_nats_asks_for_the_token_of_the_settings(workspace: Workspace, tmp_path: Path) -> None:
    with brokers.nats(tmp_path / "broker", "--auth", "sesame-token") as broker:
        workspace.write(
            "events/a.json", document(address="orders", server={"host": broker.host, "protocol": "nats"})
        )
        workspace.settings(auth={"type": "bearer", "token": "sesame-token"})
        async with workspace.open() as app:
            assert (await app.call("emit", n=1)).structured["acknowledged"] == {"stream": None}
        workspace.settings(auth={"type": "bearer", "token": "wrong-token"}, retry={"attempts": 1})
        async with workspace.open() as app:
            with pytest.raises(AuthError) as caught:
                await app.call("emit", n=1)
    assert "wrong-token" not in str(caught.value)


@pytest.mark.brokers
async def test_redis_asks_for_the_password_of_the_settings(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_PASSWORD", "sesame-pass")
    with brokers.redis(tmp_path / "broker", "--requirepass", "sesame-pass") as broker:
        plain = {"host": broker.host, "protocol": "redis"}
        workspace.write("events/a.json", document(server=plain))
        login = {"type": "basic", "username": "default", "password": "${REDIS_PASSWORD}"}
        workspace.settings(auth=login)
        async with workspace.open() as app:
            assert (await app.call("emit", n=1)).structured["acknowledged"]
        workspace.settings(retry={"attempts": 1})
        async with workspace.open() as app:
            with pytest.raises(AuthError):
                await app.call("emit", n=1)
        # Or in the address itself.
        inside = {"host": "default:${REDIS_PASSWORD}@" + broker.host, "protocol": "redis"}
        workspace.write("events/a.json", document(server=inside))
        async with workspace.open() as app:
            assert (await app.call("emit", n=1)).structured["acknowledged"]


@pytest.mark.brokers
async def test_mosquitto_asks_for_the_password_of_the_settings(workspace: Workspace, tmp_path: Path) -> None:
    passwords = tmp_path / "passwords"
    brokers.mosquitto_password(passwords, "ann", "sesame-pass")
    with brokers.mosquitto(
        tmp_path / "broker", "allow_anonymous false", f"password_file {passwords}", "user root"
    ) as broker:
        workspace.write("events/a.json", document(server={"host": broker.host, "protocol": "mqtt"}))
        workspace.settings(auth={"type": "basic", "username": "ann", "password": "sesame-pass"})
        async with workspace.open() as app:
            assert (await app.call("emit", n=1)).structured["acknowledged"] == {"qos": 1}
        workspace.settings(retry={"attempts": 1})
        async with workspace.open() as app:
            with pytest.raises(AuthError):
                await app.call("emit", n=1)


@pytest.mark.brokers
async def test_mqtt_of_the_older_version_works_too(workspace: Workspace, tmp_path: Path) -> None:
    with brokers.mosquitto(tmp_path / "broker") as broker:
        server = {"host": broker.host, "protocol": "mqtt", "protocolVersion": "3.1.1"}
        workspace.settings(envelope="binary")
        workspace.write("events/a.json", document(server=server, bindings={"mqtt": {"qos": 2}}))
        async with workspace.open() as app:
            assert (await app.call("emit", n=1)).structured["acknowledged"] == {"qos": 2}
            waiting = asyncio.create_task(app.call("wait"))
            event = (await until_heard(app, waiting, {"n": 2})).structured
    assert (event["type"], event["data"]) == ("Placed", {"n": 2})


@pytest.mark.parametrize(
    ("protocol", "value"), [("nats", "a.b"), ("nats", "*"), ("mqtt", "a/b"), ("mqtt", "#"), ("redis", "a\nb")]
)
async def test_a_parameter_cannot_change_the_shape_of_an_address(
    workspace: Workspace, protocol: str, value: str
) -> None:
    # Nobody needs to be there: it is refused before anything is sent.
    from spindle.sources.events.addresses import filled

    with pytest.raises(InvalidArgumentsError, match="'id'"):
        filled("users/{id}", {"id": value}, protocol)


async def test_a_missing_extra_is_named_with_what_installs_it(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spindle.sources.events.links import pool

    monkeypatch.setattr(pool, "find_spec", lambda _: None)
    workspace.write("events/a.json", document(server={"host": "x", "protocol": "amqps"}))
    async with workspace.open() as app:
        with pytest.raises(ConfigurationError) as caught:
            await app.call("emit", n=1)
    assert caught.value.hint == "install it: pip install 'spindle-tools[rabbitmq]'"
