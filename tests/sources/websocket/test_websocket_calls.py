"""Calls over a real WebSocket: every reply finds its call, and no other."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest
from websocket_service import Service
from websockets.asyncio.server import ServerConnection

from servers.running import PATIENCE, OpenSources, until
from spindle.calls.caller import CallOptions
from spindle.domain.identity import Credential, Principal
from spindle.errors import (
    AuthError,
    ClientError,
    ConnectionFailedError,
    InvalidArgumentsError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitedError,
    ResultTooLargeError,
    ServerError,
)

ADD = {
    "message": {"method": "add", "params": {"a": "{a}", "b": "{b}", "note": "of {a}"}},
    "parameters": {"a": {"type": "integer", "required": True}, "b": {"type": "integer", "default": 1}},
    "reply": "result",
    "error": "error",
}
PLAIN = {"message": {"say": "{text}"}, "parameters": {"text": "string"}}
ONCE = {"retry": {"attempts": 1}}


class Gate:
    """Tells that something was reached, and holds it there."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    async def __call__(self) -> None:
        self.reached.set()
        await self.opened.wait()


async def session_of(app: Any, source: str = "s") -> Any:
    connection = app.catalog.connections._open[(source, "", "")]
    return await connection.session()


async def test_a_message_is_filled_and_the_reply_is_taken_from_its_path(
    open_sources: OpenSources, service: Service
) -> None:
    async with open_sources({"s": service({"add": ADD}, id_field="id")}) as app:
        assert [summary.name for summary in await app.tools()] == ["s.add"]
        assert service.requests == []
        result = await app.call("s.add", a=2)
        again = await app.call("s.add", a=3, b=4)
    assert result.structured == {
        "method": "add", "params": {"a": 2, "b": 1, "note": "of 2"}, "id": 1,
    }  # fmt: skip
    assert again.structured["params"] == {"a": 3, "b": 4, "note": "of 3"}
    assert len(service.requests) == 1


async def test_what_is_left_out_of_the_arguments_is_left_out_of_the_message(
    open_sources: OpenSources, service: Service
) -> None:
    request = {
        "message": '{"op": "x", "list": ["{a}", "{b}", 1], "deep": {"b": "{b}"}, "text": "a{b}"}',
        "parameters": {"a": "object", "b": "string"},
    }
    async with open_sources({"s": service({"x": request})}) as app:
        await app.call("s.x", a={"k": None})
    assert service.received == [{"op": "x", "list": [{"k": None}, 1], "deep": {}}]


async def test_a_hundred_interleaved_calls_each_get_their_own_reply(
    open_sources: OpenSources, service: Service
) -> None:
    async def shuffles(connection: ServerConnection) -> None:
        waiting = []
        async for message in service.messages(connection):
            waiting.append(message)
            if len(waiting) == 100:
                random.Random(7).shuffle(waiting)
                for item in waiting:
                    body = {"head": {"re": item["head"]["id"]}, "result": item["params"]["a"] * 2}
                    await connection.send(json.dumps(body))

    service.behaves = shuffles
    settings = service(
        {"add": ADD}, id_field="head.id", reply_id_field="head.re", id_type="string", max_concurrency=100
    )
    async with open_sources({"s": settings}) as app:
        results = await asyncio.gather(*(app.call("s.add", a=number) for number in range(100)))
    assert [result.structured for result in results] == [number * 2 for number in range(100)]
    assert len(service.requests) == 1
    assert {type(message["head"]["id"]) for message in service.received} == {str}


async def test_a_late_reply_is_dropped_and_counted(open_sources: OpenSources, service: Service) -> None:
    gate = Gate()

    async def slow_at_first(connection: ServerConnection) -> None:
        async for message in service.messages(connection):
            if message["id"] == 1:
                first = message
                gate.reached.set()
                continue
            await connection.send(json.dumps({"id": first["id"], "result": "late"}))
            await connection.send(json.dumps({"hello": "nobody asked"}))
            await connection.send("not JSON")
            await connection.send(json.dumps({"id": message["id"], "result": "own"}))

    service.behaves = slow_at_first
    notes: list[str] = []
    async with open_sources({"s": service({"add": ADD}, id_field="id", **ONCE)}, note=notes.append) as app:
        given_up = asyncio.create_task(app.call("s.add", a=1))
        await gate.reached.wait()
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        assert (await app.call("s.add", a=2)).structured == "own"
        session = await session_of(app)
        assert (session.late, session.unmatched) == (1, 2)
    assert notes == ["s: 1 replies came after their call had ended and were dropped"]


# --- in order


async def test_without_an_id_calls_take_turns(open_sources: OpenSources, service: Service) -> None:
    early = 0

    async def one_at_a_time(connection: ServerConnection) -> None:
        nonlocal early
        async for message in service.messages(connection):
            # Nothing else may arrive while a reply is due: not even by when the client has answered us.
            await (await connection.ping())
            unasked = asyncio.create_task(connection.recv())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            early += unasked.done()
            unasked.cancel()
            await asyncio.gather(unasked, return_exceptions=True)
            await connection.send(json.dumps(message["say"]))

    service.behaves = one_at_a_time
    async with open_sources({"s": service({"say": PLAIN})}) as app:
        results = await asyncio.gather(*(app.call("s.say", text=str(number)) for number in range(10)))
    assert [result.structured for result in results] == [str(number) for number in range(10)]
    assert early == 0
    assert len(service.requests) == 1


async def test_without_an_id_a_call_that_is_given_up_takes_the_connection_with_it(
    open_sources: OpenSources, service: Service
) -> None:
    gate = Gate()

    async def late_on_the_first(connection: ServerConnection) -> None:
        async for message in service.messages(connection):
            if message["say"] == "first":
                await gate()
            await connection.send(json.dumps(message["say"]))

    service.behaves = late_on_the_first
    async with open_sources({"s": service({"say": PLAIN})}) as app:
        first = asyncio.create_task(app.call("s.say", text="first"))
        await gate.reached.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        gate.opened.set()
        assert (await app.call("s.say", text="second")).structured == "second"
    assert len(service.requests) == 2


async def test_a_message_that_nobody_waits_for_is_no_reply(
    open_sources: OpenSources, service: Service
) -> None:
    async def adds_something(connection: ServerConnection) -> None:
        async for message in service.messages(connection):
            await connection.send(json.dumps(message["say"]))
            await connection.send(json.dumps("by the way"))

    service.behaves = adds_something
    async with open_sources({"s": service({"say": PLAIN})}) as app:
        assert (await app.call("s.say", text="x")).structured == "x"
        session = await session_of(app)
        await until(lambda: session.unmatched == 1)
        assert (await app.call("s.say", text="y")).structured == "y"


async def test_a_reply_that_is_not_json_is_an_error_that_names_the_place(
    open_sources: OpenSources, service: Service
) -> None:
    async def babbles(connection: ServerConnection) -> None:
        async for _ in service.messages(connection):
            await connection.send('{"a":\n }')

    service.behaves = babbles
    async with open_sources({"s": service({"say": PLAIN}, **ONCE)}) as app:
        for _ in range(2):
            with pytest.raises(ServerError, match="line 2 column 2"):
                await app.call("s.say", text="x")
    assert len(service.requests) == 1


# --- errors in replies


@pytest.mark.parametrize(
    ("marks", "reply", "text"),
    [
        ("error", {"error": {"code": 5, "message": "no such thing"}}, "no such thing"),
        ("error", {"error": "plain"}, "plain"),
        ({"status": "error"}, {"status": "error", "why": 1}, None),
    ],
)
async def test_a_reply_that_reports_an_error_is_an_error_of_the_tool(
    open_sources: OpenSources, service: Service, marks: Any, reply: dict[str, Any], text: str | None
) -> None:
    async def refuses(connection: ServerConnection) -> None:
        async for message in service.messages(connection):
            await connection.send(json.dumps({**reply, "id": message["id"]}))

    service.behaves = refuses
    async with open_sources({"s": service({"add": {**ADD, "error": marks}}, id_field="id")}) as app:
        result = await app.call("s.add", a=1)
    assert result.is_error
    assert text is None or result.text == text


@pytest.mark.parametrize(
    ("error", "category"),
    [
        ({"code": 429, "message": "slower"}, "rate_limited"),
        ({"code": -32601, "message": "no such method"}, "client"),
        ({"code": "NOT_FOUND"}, "not_found"),
        ({"code": 5, "message": "the vault is shut"}, "permission"),
        ({"code": 1013, "message": "x"}, "timeout"),
        ({"code": 5, "message": "something else"}, "tool"),
    ],
)
async def test_an_error_in_a_reply_has_its_category(
    open_sources: OpenSources, service: Service, error: dict[str, Any], category: str
) -> None:
    async def refuses(connection: ServerConnection) -> None:
        async for message in service.messages(connection):
            await connection.send(json.dumps({"error": error, "id": message["id"]}))

    service.behaves = refuses
    rules = {"permission": "vault", "timeout": 1013}
    settings = service({"add": {**ADD, "error": "error"}}, id_field="id", errors=rules, retry={"attempts": 1})
    async with open_sources({"s": settings}) as app:
        assert (await app.call("s.add", a=1)).category == category


async def test_a_reply_without_its_useful_part_is_an_error_that_shows_it(
    open_sources: OpenSources, service: Service
) -> None:
    request = {**PLAIN, "reply": "result.list.1"}
    async with open_sources({"s": service({"say": request}, **ONCE)}) as app:
        with pytest.raises(ServerError, match=r"has no 'result.list.1': .*\"say\":\"x\""):
            await app.call("s.say", text="x")


# --- streams


def ticks(service: Service, messages: list[Any]) -> Any:
    async def sends(connection: ServerConnection) -> None:
        async for message in service.messages(connection):
            if message.get("op") == "stop":
                await connection.send(json.dumps({"id": message.get("id"), "ok": True}))
                continue
            for item in messages:
                await connection.send(
                    json.dumps({**item, "id": message.get("id")} if item.get("own") else item)
                )

    return sends


SUBSCRIBE = {"message": {"op": "subscribe", "to": "{to}"}, "parameters": {"to": "string"}}
OWN = [{"own": True, "n": number} for number in range(5)]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        ({"count": 3}, [0, 1, 2]),
        ({"until": {"n": 1}}, [0, 1]),
        ({"until": "n"}, [0, 1]),
        ({"seconds": 60, "count": 1}, [0]),
    ],
)
@pytest.mark.parametrize("id_field", ["id", None])
async def test_a_stream_collects_by_count_or_until_a_message(
    open_sources: OpenSources, service: Service, stream: Any, expected: list[int], id_field: str | None
) -> None:
    service.behaves = ticks(service, OWN)
    request = {**SUBSCRIBE, "stream": stream, "reply": "n"}
    own = {"id_field": id_field} if id_field else {}
    async with open_sources({"s": service({"sub": request}, **own)}) as app:
        for _ in range(2):
            assert (await app.call("s.sub", to="x")).structured == expected
    # Without an id, what else the stream would have brought must not be taken for the next reply.
    assert len(service.requests) == (1 if id_field else 2)


async def test_a_stream_collects_for_a_time(open_sources: OpenSources, service: Service) -> None:
    service.behaves = ticks(service, OWN)
    lengths = [0.2 * 2**number for number in range(10)]
    requests = {
        f"sub{at}": {**SUBSCRIBE, "stream": {"seconds": seconds}, "reply": "n"}
        for at, seconds in enumerate(lengths)
    }
    async with open_sources({"s": service(requests, id_field="id", timeout=300)}) as app:
        for at in range(len(lengths)):
            collected = (await app.call(f"s.sub{at}", to="x")).structured
            assert collected == [0, 1, 2, 3, 4][: len(collected)]
            if len(collected) == 5:
                return  # however slow the machine is, some time is enough
    pytest.fail("nothing was collected")


async def test_messages_of_a_subscription_may_be_told_by_a_field_and_it_is_ended(
    open_sources: OpenSources, service: Service
) -> None:
    feed = [{"channel": name, "v": number} for number in range(3) for name in ("other", "mine")]
    service.behaves = ticks(service, [{"own": True, "subscribed": True}, *feed])
    stream = {"count": 2, "match": {"channel": "{to}"}, "stop": {"op": "stop", "to": "{to}"}}
    request = {**SUBSCRIBE, "stream": stream, "reply": "v"}
    async with open_sources({"s": service({"sub": request}, id_field="id")}) as app:
        assert (await app.call("s.sub", to="mine")).structured == [0, 1]
        assert (await app.call("s.sub", to="other")).structured == [0, 1]
        session = await session_of(app)
        await until(lambda: not session._desk.unawaited)
        assert session.late == 0
    assert service.received[1] == {"op": "stop", "to": "mine", "id": 2}


async def test_a_stream_ends_with_the_error_that_it_reports(
    open_sources: OpenSources, service: Service
) -> None:
    service.behaves = ticks(service, [{"own": True, "n": 1}, {"own": True, "error": "over"}])
    request = {**SUBSCRIBE, "stream": {"count": 5}, "error": "error"}
    async with open_sources({"s": service({"sub": request}, id_field="id")}) as app:
        result = await app.call("s.sub")
    assert (result.is_error, result.text) == (True, "over")


async def test_a_stream_has_a_limit(open_sources: OpenSources, service: Service) -> None:
    service.behaves = ticks(service, [{"own": True, "text": "x" * 400}] * 5)
    request = {**SUBSCRIBE, "stream": {"seconds": 60}}
    async with open_sources({"s": service({"sub": request}, id_field="id", max_result_size=1000)}) as app:
        with pytest.raises(ResultTooLargeError, match="more than 1000 bytes"):
            await app.call("s.sub")


# --- subscriptions whose id the service gives

NAMED = {
    "message": {"method": "subscribe", "params": ["{topic}"]},
    "parameters": {"topic": "string"},
    "error": "error",
    "reply": "params.result",
    "stream": {
        "count": 3, "id_from": "result", "id_field": "params.subscription",
        "stop": {"method": "unsubscribe", "params": ["{subscription}"]},
    },
}  # fmt: skip


class Broker:
    """Gives each subscription an id, and sends what tests tell it to."""

    def __init__(self, service: Service, *, wanted: int, numbers: bool = False) -> None:
        self.service = service
        self.wanted = wanted
        self.numbers = numbers
        self.topics: dict[str, Any] = {}
        self.ended: list[Any] = []
        self.all_here = asyncio.Event()
        self.connection: ServerConnection | None = None

    async def __call__(self, connection: ServerConnection) -> None:
        self.connection = connection
        async for message in self.service.messages(connection):
            [what] = message["params"]
            if message["method"] == "unsubscribe":
                self.ended.append(what)
                await self.send({"id": message.get("id"), "result": True})
                continue
            given = len(self.topics) + 1
            self.topics[what] = given if self.numbers else f"sub-{given}"
            await self.send({"id": message.get("id"), "result": self.topics[what]})
            if len(self.topics) == self.wanted:
                self.all_here.set()

    async def send(self, message: Any) -> None:
        assert self.connection is not None
        await self.connection.send(json.dumps(message))

    async def publish(self, topic: str, value: Any) -> None:
        params = {"subscription": self.topics[topic], "result": value}
        await self.send({"method": "event", "params": params})


@pytest.mark.parametrize("numbers", [False, True])
async def test_interleaved_subscriptions_are_told_apart_by_the_id_of_their_first_reply(
    open_sources: OpenSources, service: Service, numbers: bool
) -> None:
    topics = [f"topic-{number}" for number in range(20)]
    service.behaves = broker = Broker(service, wanted=len(topics), numbers=numbers)
    settings = service({"watch": NAMED}, id_field="id", max_concurrency=20)
    async with open_sources({"s": settings}) as app:
        calls = [asyncio.create_task(app.call("s.watch", topic=topic)) for topic in topics]
        async with asyncio.timeout(PATIENCE):
            await broker.all_here.wait()
        events = [(topic, f"{topic}:{number}") for number in range(3) for topic in topics]
        for number in range(3):
            some = events[number * 20 : number * 20 + 20]
            random.Random(number).shuffle(some)
            for topic, value in some:
                await broker.publish(topic, value)
        results = await asyncio.gather(*calls)
        session = await session_of(app)
        await until(lambda: len(broker.ended) == len(topics))
        await broker.publish(topics[0], "too late")
        await until(lambda: session.late == 1)
        assert session.unmatched == 0
    for topic, result in zip(topics, results, strict=True):
        assert result.structured == [f"{topic}:{number}" for number in range(3)]
    assert sorted(map(str, broker.ended)) == sorted(map(str, broker.topics.values()))
    assert {type(ended) for ended in broker.ended} == {int if numbers else str}


async def test_messages_that_overtake_the_first_reply_are_not_lost(
    open_sources: OpenSources, service: Service
) -> None:
    async def eager(connection: ServerConnection) -> None:
        async for message in service.messages(connection):
            if message["method"] == "unsubscribe":
                continue
            for name, value in (("mine", 1), ("other", 0), ("mine", 2)):
                params = {"subscription": name, "result": value}
                await connection.send(json.dumps({"params": params}))
            await connection.send(json.dumps({"id": message["id"], "result": "mine"}))
            params = {"subscription": "mine", "result": 3}
            await connection.send(json.dumps({"params": params}))

    service.behaves = eager
    async with open_sources({"s": service({"watch": NAMED}, id_field="id")}) as app:
        assert (await app.call("s.watch", topic="x")).structured == [1, 2, 3]
        assert (await session_of(app)).unmatched == 1


async def test_without_numbers_the_first_message_is_the_reply(
    open_sources: OpenSources, service: Service
) -> None:
    service.behaves = broker = Broker(service, wanted=1)
    async with open_sources({"s": service({"watch": NAMED})}) as app:
        call = asyncio.create_task(app.call("s.watch", topic="x"))
        async with asyncio.timeout(PATIENCE):
            await broker.all_here.wait()
        for value in (1, 2, 3):
            await broker.publish("x", value)
        assert (await call).structured == [1, 2, 3]


async def test_a_subscription_that_is_given_up_is_ended_at_the_service(
    open_sources: OpenSources, service: Service
) -> None:
    service.behaves = broker = Broker(service, wanted=1)
    async with open_sources({"s": service({"watch": NAMED}, id_field="id")}) as app:
        call = asyncio.create_task(app.call("s.watch", topic="x"))
        async with asyncio.timeout(PATIENCE):
            await broker.all_here.wait()
        session = await session_of(app)
        await until(lambda: not any(waiting.is_unnamed for waiting in session._desk.everybody()))
        await until(lambda: all(not waiting.incoming.qsize() for waiting in session._desk.everybody()))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(lambda: broker.ended == ["sub-1"])


@pytest.mark.parametrize(
    ("reply", "kind", "says"),
    [
        ({"error": {"message": "no such topic"}}, None, "no such topic"),
        ({"ok": 1}, ServerError, "has no 'result'"),
    ],
)
async def test_a_first_reply_without_an_id_is_an_error(
    open_sources: OpenSources, service: Service, reply: Any, kind: type[Exception] | None, says: str
) -> None:
    async def refuses(connection: ServerConnection) -> None:
        async for message in service.messages(connection):
            await connection.send(json.dumps({"id": message["id"], **reply}))

    service.behaves = refuses
    async with open_sources({"s": service({"watch": NAMED}, id_field="id", **ONCE)}) as app:
        if kind is None:
            result = await app.call("s.watch", topic="x")
            assert (result.is_error, result.text) == (True, says)
        else:
            with pytest.raises(kind, match=says):
                await app.call("s.watch", topic="x")


# --- frames


async def test_json_may_travel_in_binary_frames(open_sources: OpenSources, service: Service) -> None:
    kinds: list[type] = []

    async def binary(connection: ServerConnection) -> None:
        async for payload in connection:
            kinds.append(type(payload))
            await connection.send(payload)

    service.behaves = binary
    async with open_sources({"s": service({"say": PLAIN}, frames="binary")}) as app:
        assert (await app.call("s.say", text="é")).structured == {"say": "é"}
    assert kinds == [bytes]


async def test_text_and_bytes_are_passed_as_they_are(open_sources: OpenSources, service: Service) -> None:
    async def mirrors(connection: ServerConnection) -> None:
        async for payload in connection:
            await connection.send(payload)
            await connection.send(payload)

    service.behaves = mirrors
    text = {"message": "SAY {text}", "parameters": {"text": "string"}, "stream": {"count": 2}}
    data = {"message": "{data}", "parameters": {"data": "string"}}
    sources = {
        "t": service({"say": text}, format="text"),
        "b": service({"send": data}, format="base64", **ONCE),
    }
    async with open_sources(sources) as app:
        said = await app.call("t.say", text="{hi}")
        assert [block.text for block in said.content] == ["SAY {hi}", "SAY {hi}"]
        sent = await app.call("b.send", data="/wA=")
        assert [(block.type, block.data) for block in sent.content] == [("resource", "/wA=")]
        with pytest.raises(InvalidArgumentsError, match="not base64"):
            await app.call("b.send", data="?")


# --- a connection's end


async def test_a_call_whose_connection_closes_is_told_and_the_next_one_reconnects(
    open_sources: OpenSources, service: Service
) -> None:
    async def closes_once(connection: ServerConnection) -> None:
        if len(service.requests) == 1:
            await connection.recv()
            await connection.close(1011, "out of order")
        else:
            await service.echo(connection)

    service.behaves = closes_once
    async with open_sources({"s": service({"add": ADD}, id_field="id")}) as app:
        with pytest.raises(ConnectionFailedError, match="out of order") as caught:
            await app.call("s.add", a=1)
        assert caught.value.sent
        assert (await app.call("s.add", a=2)).structured["params"]["a"] == 2
    assert len(service.requests) == 2


async def test_only_what_is_safe_is_sent_again(open_sources: OpenSources, service: Service) -> None:
    async def closes_at_first(connection: ServerConnection) -> None:
        if len(service.requests) == 1:
            await connection.recv()
        else:
            await service.echo(connection)

    service.behaves = closes_at_first
    async with open_sources({"s": service({"add": {**ADD, "read_only": True}}, id_field="id")}) as app:
        assert (await app.call("s.add", a=2)).structured["params"]["a"] == 2
    assert len(service.requests) == 2


async def test_an_idle_connection_that_closed_is_opened_again(
    open_sources: OpenSources, service: Service
) -> None:
    async def answers_once(connection: ServerConnection) -> None:
        message = json.loads(await connection.recv())
        await connection.send(json.dumps({"id": message["id"], "result": len(service.requests)}))

    service.behaves = answers_once
    async with open_sources({"s": service({"add": ADD}, id_field="id")}) as app:
        for number in (1, 2, 3):
            assert (await app.call("s.add", a=1)).structured == number


async def test_a_message_over_the_limit_is_refused_and_the_next_call_works(
    open_sources: OpenSources, service: Service
) -> None:
    async def large_at_first(connection: ServerConnection) -> None:
        async for message in service.messages(connection):
            text = "x" * 2000 if len(service.requests) == 1 else "small"
            await connection.send(json.dumps({"id": message["id"], "result": text}))

    service.behaves = large_at_first
    async with open_sources({"s": service({"add": ADD}, id_field="id", max_result_size=1000)}) as app:
        with pytest.raises(ResultTooLargeError, match="larger than 1000 bytes"):
            await app.call("s.add", a=1)
        assert (await app.call("s.add", a=1)).structured == "small"


async def test_a_connection_that_is_not_answered_any_more_is_given_up(
    open_sources: OpenSources, service: Service
) -> None:
    hold = asyncio.Event()

    async def goes_silent(connection: ServerConnection) -> None:
        await connection.recv()
        connection.transport.pause_reading()
        await hold.wait()
        connection.transport.resume_reading()

    service.behaves = goes_silent
    # Short, so that the test is; a machine on which it is too short sees the same end, only sooner.
    async with open_sources({"s": service({"add": ADD}, id_field="id", keep_alive=0.05)}) as app:
        with pytest.raises(ConnectionFailedError, match="keepalive"):
            await app.call("s.add", {"a": 1}, CallOptions(timeout=PATIENCE))
        hold.set()


# --- the handshake


@pytest.mark.parametrize(
    ("status", "headers", "kind"),
    [
        (401, {}, AuthError),
        (403, {}, PermissionDeniedError),
        (404, {}, NotFoundError),
        (400, {}, ClientError),
        (302, {"Location": "ws://elsewhere/"}, ClientError),
        (302, {"location": "ws://nowhere/", "Location": "ws://elsewhere/"}, ClientError),
        (429, {"Retry-After": "7"}, RateLimitedError),
        (429, {"Retry-After": "7", "retry-after": "7", "date": "today"}, RateLimitedError),
        (500, {}, ServerError),
    ],
)
async def test_a_refused_handshake_is_the_error_that_its_status_means(
    open_sources: OpenSources, service: Service, status: int, headers: dict[str, str], kind: type[Exception]
) -> None:
    service.refusal = (status, headers)
    async with open_sources({"s": service({"add": ADD}, **ONCE)}) as app:
        with pytest.raises(kind, match=f"HTTP status {status}") as caught:
            await app.call("s.add", a=1)
    error: Any = caught.value
    assert (error.status, error.sent) == (status, False)
    assert error.retry_after == (7.0 if status == 429 else None)
    if status == 302:
        assert "moved to ws://elsewhere/" in error.message


async def test_a_service_that_is_not_there_is_tried_again_and_then_named(
    open_sources: OpenSources, service: Service
) -> None:
    settings = service({"add": ADD})
    assert service.server is not None
    service.server.close()
    await service.server.wait_closed()
    async with open_sources({"s": settings}) as app:
        with pytest.raises(ConnectionFailedError, match="cannot reach 's'") as caught:
            await app.call("s.add", a=1)
        assert not caught.value.sent
        [record, *_] = await app.history()
    assert record.attempts == 3


async def test_a_refusal_that_passes_is_retried(open_sources: OpenSources, service: Service) -> None:
    service.refusal = (503, {"Retry-After": "0"})
    service.refuses_once = True
    async with open_sources({"s": service({"add": ADD}, id_field="id")}) as app:
        await app.call("s.add", a=1)
    assert len(service.requests) == 2


async def test_an_http_server_that_knows_no_websocket_is_an_error_of_the_server(
    open_sources: OpenSources,
) -> None:
    async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"SSH-2.0-nothing\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(other, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    settings = {"kind": "websocket", "url": f"ws://127.0.0.1:{port}", "requests": {"x": PLAIN}, **ONCE}
    async with server, open_sources({"s": settings}) as app:
        with pytest.raises(ServerError, match="does not answer as a WebSocket service"):
            await app.call("s.x", text="a")


async def test_headers_subprotocols_and_every_form_of_credential_are_sent(
    open_sources: OpenSources, service: Service
) -> None:
    forms: dict[str, dict[str, Any]] = {
        "bearer": {"type": "bearer", "token": "t0ken"},
        "query": {"type": "api_key", "name": "k y", "value": "a&b", "in": "query"},
        "cookie": {"type": "api_key", "name": "sid", "value": "c00kie", "in": "cookie"},
    }
    sources = {
        name: service({"add": ADD}, id_field="id", auth=auth, headers={"X-Team": "red"})
        for name, auth in forms.items()
    }
    sources["query"]["url"] += "?v=1"
    async with open_sources(sources) as app:
        for name in forms:
            await app.call(f"{name}.add", a=1)
    bearer, query, cookie = service.requests
    assert bearer.headers["Authorization"] == "Bearer t0ken"
    assert bearer.headers["X-Team"] == "red"
    assert query.path == "/socket?v=1&k%20y=a%26b"
    assert cookie.headers["Cookie"] == "sid=c00kie"


async def test_two_principals_never_share_a_connection(open_sources: OpenSources, service: Service) -> None:
    async def credentials(source: str, principal: Principal) -> Credential:
        return Credential(headers=(("Authorization", principal.id),))

    async with open_sources({"s": service({"add": ADD}, id_field="id")}, credentials=credentials) as app:
        for user in ("ada", "bob"):
            await app.call("s.add", {"a": 1}, CallOptions(principal=Principal(user)))
    assert [request.headers["Authorization"] for request in service.requests] == ["ada", "bob"]
