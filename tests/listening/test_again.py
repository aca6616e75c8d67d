"""Requests that begin like an earlier one on their connection."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import weakref
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from servers.running import PATIENCE
from spindle.listening.again import RepeatedRequest, remember_head
from spindle.listening.server import EmbeddedServer


class App:
    """Answers what comes the ordinary way with `parsed:` and the body, and has the rest handed to `known`."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.entered = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            event = await receive()
            body += event["body"]
            more = event.get("more_body", False)
        self.seen.append(f"parsed {body.decode()}")
        remember_head(scope, self.known)
        headers = [(b"content-length", b"%d" % (len(body) + 7))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"parsed:" + body})

    async def known(self, request: RepeatedRequest, body: bytes) -> None:
        self.seen.append(f"known {body.decode()}")
        self.entered.set()
        await self.go_on.wait()
        if body == b"broken":
            raise ValueError(body)
        if body == b"other":
            await request.take_ordinary_way()
        else:
            request.answer(b"x-way: known\r\n", b"known:" + body)


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, body: bytes, more: bytes = b"") -> None:
        self.writer.write(request_of(body, more))

    async def answer(self) -> tuple[bytes, bytes]:
        async with asyncio.timeout(PATIENCE):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            return head, await self.reader.readexactly(length)

    async def ask(self, body: bytes, more: bytes = b"") -> bytes:
        self.send(body, more)
        return (await self.answer())[1]


def request_of(body: bytes, more: bytes = b"") -> bytes:
    return b"POST / HTTP/1.1\r\nhost: x\r\nContent-Length: %d\r\n%b\r\n%b" % (len(body), more, body)


@contextlib.asynccontextmanager
async def connected(app: App) -> AsyncGenerator[tuple[Client, EmbeddedServer]]:
    server = EmbeddedServer(app)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        running = asyncio.create_task(server.serve(sockets=[listening]))
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection(*listening.getsockname())
        try:
            yield Client(reader, writer), server
        finally:
            app.go_on.set()
            writer.close()
            server.stop(1)
            await running


async def test_a_request_that_begins_like_the_one_before_is_not_parsed_again() -> None:
    app = App()
    async with connected(app) as (client, _):
        assert await client.ask(b"one") == b"parsed:one"
        client.send(b"a longer one")
        head, body = await client.answer()
        assert body == b"known:a longer one"
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"x-way: known\r\n" in head
        assert await client.ask(b"") == b"known:"


async def test_the_memory_of_a_connection_is_free_with_its_end() -> None:
    gc.disable()  # which would find circles, but only now and then
    try:
        async with connected(App()) as (client, server):
            assert await client.ask(b"one") == b"parsed:one"
            assert await client.ask(b"two") == b"known:two"
            (connection,) = map(weakref.ref, server.state.connections)
            client.writer.close()
            async with asyncio.timeout(PATIENCE):
                while connection() is not None:
                    await asyncio.sleep(0)
    finally:
        gc.enable()
    assert connection() is None


async def test_the_time_in_answers_goes_on_with_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    app = App()
    async with connected(app) as (client, server):
        await client.ask(b"one")
        monkeypatch.setattr(server.state, "tick", lambda: None)
        server.state.usual_lines = b"date: later\r\n"
        client.send(b"two")
        head, body = await client.answer()
    assert body == b"known:two"
    assert b"\r\ndate: later\r\n" in head


@pytest.mark.parametrize(
    "more", [b"authorization: Bearer x\r\n", b"connection: close\r\n", b"content-length: 5\r\n", b"x: 1\r\n"]
)
async def test_what_begins_differently_is_parsed(more: bytes) -> None:
    app = App()
    async with connected(app) as (client, _):
        assert await client.ask(b"first") == b"parsed:first"
        client.send(b"other", more)
        await client.answer()
    assert not any(item.startswith("known") for item in app.seen)


@pytest.mark.parametrize("more", [b"connection: x\r\n", b"origin: http://x\r\n"])
async def test_heads_that_ask_for_another_treatment_are_not_remembered(more: bytes) -> None:
    app = App()
    async with connected(app) as (client, _):
        for body in (b"one", b"two"):
            assert await client.ask(body, more) == b"parsed:" + body


async def test_a_head_that_asks_for_what_is_so_anyway_is_remembered() -> None:
    app = App()
    async with connected(app) as (client, _):
        assert await client.ask(b"one", b"Connection: keep-alive\r\n") == b"parsed:one"
        assert await client.ask(b"two", b"Connection: keep-alive\r\n") == b"known:two"


async def test_a_head_that_differs_in_its_last_byte_is_another() -> None:
    app = App()
    async with connected(app) as (client, _):
        assert await client.ask(b"one", b"authorization: Bearer aaaa\r\n") == b"parsed:one"
        assert await client.ask(b"two", b"authorization: Bearer aaab\r\n") == b"parsed:two"
        assert await client.ask(b"two", b"authorization: Bearer aaab\r\n") == b"known:two"


async def test_a_request_that_comes_in_pieces_is_parsed() -> None:
    app = App()
    async with connected(app) as (client, server):
        await client.ask(b"one")
        whole = request_of(b"in pieces")
        for cut in (10, 30, len(whole) - 3):
            client.writer.write(whole[:cut])
            async with asyncio.timeout(PATIENCE):
                connection: Any = next(iter(server.state.connections))
                while not connection._reading and not connection._unread:
                    await asyncio.sleep(0)  # until the first piece was read
            client.writer.write(whole[cut:])
            assert (await client.answer())[1] == b"parsed:in pieces"


async def test_requests_that_come_together_are_answered_in_order() -> None:
    app = App()
    async with connected(app) as (client, _):
        await client.ask(b"one")
        client.writer.write(b"".join(request_of(b"%d" % number) for number in range(5)))
        assert [(await client.answer())[1][-1:] for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_request_that_comes_before_the_answer_waits_for_it() -> None:
    app = App()
    async with connected(app) as (client, server):
        await client.ask(b"one")
        app.go_on.clear()
        client.send(b"slow")
        async with asyncio.timeout(PATIENCE):
            await app.entered.wait()
            client.send(b"next")
            connection: Any = next(iter(server.state.connections))
            while not connection.pipeline:
                await asyncio.sleep(0)
        app.go_on.set()
        assert [(await client.answer())[1] for _ in range(2)] == [b"known:slow", b"parsed:next"]


async def test_whoever_takes_it_may_have_it_answered_like_others() -> None:
    app = App()
    async with connected(app) as (client, _):
        await client.ask(b"one")
        assert await client.ask(b"other") == b"parsed:other"
        assert await client.ask(b"again") == b"known:again"


async def test_a_failure_ends_the_connection_and_is_reported() -> None:
    app = App()
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
    try:
        async with connected(app) as (client, _):
            await client.ask(b"one")
            client.send(b"broken")
            async with asyncio.timeout(PATIENCE):
                assert await client.reader.read() == b""
    finally:
        asyncio.get_running_loop().set_exception_handler(None)
    assert [str(error) for error in told] == ["b'broken'"]


async def test_a_client_that_leaves_meanwhile_is_not_written_to() -> None:
    app = App()
    async with connected(app) as (client, server):
        await client.ask(b"one")
        app.go_on.clear()
        client.send(b"slow")
        async with asyncio.timeout(PATIENCE):
            await app.entered.wait()
            client.writer.close()
            while len(server.connections):
                await asyncio.sleep(0)
        app.go_on.set()
    assert app.seen == ["parsed one", "known slow"]


async def test_a_connection_that_is_over_holds_nothing_of_its_client() -> None:
    app = App()
    async with connected(app) as (client, server):
        await client.ask(b"one")
        connection: Any = next(iter(server.state.connections))
        assert connection.head._known is not None
        client.writer.close()
        async with asyncio.timeout(PATIENCE):
            while len(server.connections):
                await asyncio.sleep(0)
        assert connection.head._known is None


async def test_the_last_answer_of_a_server_that_stops_ends_the_connection() -> None:
    app = App()
    async with connected(app) as (client, server):
        await client.ask(b"one")
        app.go_on.clear()
        client.send(b"slow")
        async with asyncio.timeout(PATIENCE):
            await app.entered.wait()
            server.stop(PATIENCE)
            while any(one.is_serving() for one in server.listening):
                await asyncio.sleep(0)
        app.go_on.set()
        _, body = await client.answer()
        assert body == b"known:slow"
        async with asyncio.timeout(PATIENCE):
            assert await client.reader.read() == b""
