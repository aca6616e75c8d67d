"""The server over HTTP/1 that all of Spindle listens with, as clients see it byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import re
import signal
import socket
import weakref
from collections.abc import AsyncGenerator
from email.utils import formatdate, parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest

import spindle
from servers.running import PATIENCE
from spindle.listening.server import EmbeddedServer, open_socket
from spindle.listening.state import http_date

GET = b"GET / HTTP/1.1\r\nhost: x\r\n"
LAST = b"connection: close\r\n\r\n"


@contextlib.asynccontextmanager
async def serving(app: Any) -> AsyncGenerator[tuple[EmbeddedServer, Any]]:
    """A server of this application, and its address."""
    server = EmbeddedServer(app)
    with open_socket("127.0.0.1", 0) as listening:
        address = listening.getsockname()
        running = asyncio.create_task(server.serve([listening]))
        async with asyncio.timeout(PATIENCE):
            try:
                yield server, address
            finally:
                server.stop(1)
                await running


async def said(app: Any, request: bytes) -> bytes:
    """All that a server sends for a request, or for several, until it closes."""
    async with serving(app) as (_, address):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(request)
        answer = await reader.read()
        writer.close()
    return answer


def answering(*messages: dict[str, Any]) -> Any:
    """An application that sends these messages."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in messages:
            await send(message)

    return app


def head(*headers: tuple[bytes, bytes], status: int = 200) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


def body(data: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


hello = answering(head(), body(b"hello"))


async def test_it_leaves_signals_alone_serves_and_stops_when_told() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    async with serving(hello) as (server, address):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(GET + LAST)
        assert (await reader.read()).endswith(b"hello\r\n0\r\n\r\n")
        writer.close()
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
        assert server.state.connections == set()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


async def test_an_answer_without_a_length_comes_in_chunks_and_says_when_it_was_made() -> None:
    app = answering(head((b"X-Kind", b"test")), body(b"one", more=True), body(b"", more=True), body(b"last"))
    first, _, rest = (await said(app, GET + LAST)).partition(b"\r\n\r\n")
    status, date, *others = first.split(b"\r\n")
    assert status == b"HTTP/1.1 200 OK"
    parsedate_to_datetime(date.decode().removeprefix("date: "))
    assert others == [b"x-kind: test", b"connection: close", b"transfer-encoding: chunked"]
    assert rest == b"3\r\none\r\n4\r\nlast\r\n0\r\n\r\n"


async def test_requests_that_come_together_are_answered_in_their_order() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        path = scope["raw_path"] + b"?" + scope["query_string"] + scope["path"].encode()
        await asyncio.sleep(0)
        await send(head((b"content-length", b"%d" % len(path))))
        await send(body(path))

    requests = b"".join(b"GET /%d%%20x?q=%d HTTP/1.1\r\nhost: x\r\n\r\n" % (i, i) for i in range(3))
    answer = await said(app, requests + b"GET /last HTTP/1.1\r\nhost: x\r\n" + LAST)
    assert re.findall(rb"\r\n\r\n([^\r]*?)(?=HTTP|$)", answer) == [
        b"/0%20x?q=0/0 x",
        b"/1%20x?q=1/1 x",
        b"/2%20x?q=2/2 x",
        b"/last?/last",
    ]


async def test_the_answer_to_head_has_no_body_and_the_connection_goes_on() -> None:
    app = answering(head((b"content-length", b"5")), body(b"hello"))
    answer = await said(app, GET.replace(b"GET", b"HEAD") + b"\r\n" + GET + LAST)
    assert answer.count(b"content-length: 5") == 2
    assert answer.count(b"hello") == 1
    assert answer.endswith(b"\r\n\r\nhello")


async def test_an_answer_that_has_no_body_says_no_length() -> None:
    answer = await said(answering(head(status=204), body(b"")), GET + LAST)
    assert answer.startswith(b"HTTP/1.1 204 No Content\r\n")
    assert b"transfer-encoding" not in answer
    assert answer.endswith(b"\r\n\r\n")


async def test_a_client_of_http_1_0_gets_one_answer() -> None:
    app = answering(head((b"content-length", b"2")), body(b"ok"))
    answer = await said(app, b"GET / HTTP/1.0\r\nhost: x\r\nconnection: keep-alive\r\n\r\n")
    assert b"connection: close" in answer
    assert answer.endswith(b"\r\n\r\nok")


async def test_a_client_that_asks_first_is_told_to_go_on_when_its_body_is_wanted() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        await send(head((b"content-length", b"%d" % len(message["body"]))))
        await send(body(message["body"]))

    async with serving(app) as (_, address):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-Continue\r\ncontent-length: 4\r\n" + LAST)
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"body")
        assert (await reader.read()).endswith(b"\r\n\r\nbody")
        writer.close()


async def test_a_client_that_asks_first_and_is_refused_sends_nothing() -> None:
    ask = b"POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 4\r\n"
    answer = await said(answering(head((b"content-length", b"0"), status=403), body(b"")), ask + LAST)
    assert answer.startswith(b"HTTP/1.1 403 Forbidden")


@pytest.mark.parametrize(
    "app",
    [
        answering(),
        answering(body(b"too early")),
        answering(head((b"x-two", b"a\r\nset-cookie: b"))),
        answering(head((b"x two", b"a"))),
    ],
)
async def test_an_application_that_does_not_answer_is_reported_and_its_client_told(
    app: Any, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await said(app, GET + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    assert answer.endswith(b"connection: close\r\n\r\nInternal Server Error")
    assert b"set-cookie" not in answer
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("spindle.serve", logging.ERROR)


@pytest.mark.parametrize(
    "parts",
    [(body(b"too long"),), (body(b"it"),), (body(b"it", more=True),), (body(b"four"), body(b"more"))],
)
async def test_a_body_of_another_length_than_its_head_says_ends_the_connection(
    parts: tuple[dict[str, Any], ...], caplog: pytest.LogCaptureFixture
) -> None:
    answer = await said(answering(head((b"content-length", b"4")), *parts), GET + b"\r\n" + GET + LAST)
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert b"too long" not in answer
    assert b"more" not in answer
    assert caplog.records


async def test_a_client_that_leaves_is_noticed_by_who_waits_for_it() -> None:
    left = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        await send(head())  # nobody is there
        left.set()

    async with serving(app) as (_, address):
        _, writer = await asyncio.open_connection(*address)
        writer.write(GET + b"\r\n")
        writer.close()
        await left.wait()


async def test_a_request_that_does_not_end_in_time_is_cancelled_when_the_server_stops() -> None:
    entered, cancelled = asyncio.Event(), asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with serving(app) as (server, address):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(GET + b"\r\n")
        await entered.wait()
        server.stop(0)
        assert (await reader.read()).startswith(b"HTTP/1.1 500 ")
        assert cancelled.is_set()
        writer.close()


@pytest.mark.parametrize(
    "sent",
    [
        (),
        (GET,),
        (GET + b"\r\n",),
        (b"no request\r\n\r\n",),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nhalf",),
        (GET + b"\r\n" + GET + b"\r\n",),
    ],
)
async def test_the_memory_of_a_connection_is_free_with_its_end(sent: tuple[bytes, ...]) -> None:
    gc.disable()  # which would find circles, but only now and then
    try:
        async with serving(hello) as (server, address):
            reader, writer = await asyncio.open_connection(*address)
            for part in sent:
                writer.write(part)
            while not server.state.connections:
                await asyncio.sleep(0)
            (connection,) = map(weakref.ref, server.state.connections)
            if sent and sent[0].endswith(b"\r\n\r\n"):
                await reader.read(1)
            writer.close()
            while connection() is not None:
                await asyncio.sleep(0)
    finally:
        gc.enable()
    assert connection() is None


def test_nothing_imports_uvicorn() -> None:
    importing = re.compile(r"^\s*(from|import) uvicorn\b", re.MULTILINE)
    files = list(Path(spindle.__file__).parent.rglob("*.py"))
    assert files
    assert [file for file in files if importing.search(file.read_text("utf-8"))] == []


def test_every_day_of_a_year_is_written_as_http_has_it() -> None:
    for day in range(366):
        at = 1_700_000_000 + day * 86_461
        assert http_date(at) == formatdate(at, usegmt=True)
