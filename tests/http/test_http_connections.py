"""Connections over HTTP/1.1 to servers that answer as they are told, byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import uvloop

from servers.echo_server import PUBLIC, Answer, EchoServer
from spindle.http import connection, pool, public
from spindle.http.client import HttpClient
from spindle.http.failures import LostError, TooLargeError, UnreachableError
from spindle.http.request import Prepared

Said = bytes | tuple[bytes, ...] | None
"""What a server says to a request, in one piece or in several; None: it ends the connection."""
PATIENCE = 30.0
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Server:
    """Says the next of its answers to each request, whichever connection it comes on."""

    def __init__(self, *answers: Said) -> None:
        self.url = ""
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.connections = 0
        self.ended = 0
        self._answers = iter(answers)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (
                        int(line.partition(b":")[2])
                        for line in head.split(b"\r\n")
                        if line.lower().startswith(b"content-length:")
                    ),
                    0,
                )
                self.heads.append(head)
                said = next(self._answers)
                if said is None:
                    break
                if length < 100_000:
                    self.bodies.append(await reader.readexactly(length))
                for piece in (said,) if isinstance(said, bytes) else said:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
        self.ended += 1
        writer.close()


@contextlib.asynccontextmanager
async def serving(*answers: Said) -> AsyncIterator[tuple[Server, HttpClient]]:
    server = Server(*answers)
    async with (
        await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening,
        contextlib.aclosing(HttpClient(30)) as client,
    ):
        server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
        yield server, client


async def asked(client: HttpClient, server: Server, method: str = "GET", body: bytes | None = None) -> bytes:
    answer = await client.send(Prepared(method, server.url, {}, body))
    try:
        return await answer.read(1_000_000)
    finally:
        answer.release()


def by_bytes(data: bytes) -> tuple[bytes, ...]:
    return tuple(bytes([byte]) for byte in data)


CHUNKED = (
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;x=y\r\no\r\n1\r\nk\r\n0\r\nx-late: 1\r\n\r\n"
)


@pytest.mark.parametrize(
    "said",
    {
        "whole": OK,
        "byte by byte": by_bytes(OK),
        "in chunks": CHUNKED,
        "in chunks, byte by byte": by_bytes(CHUNKED),
        "after it was told to wait": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nlink: </a>\r\n\r\n"
        + OK,
        "with line feeds alone": OK.replace(b"\r\n", b"\n"),
        "with a header that is not ASCII": OK.replace(b"OK", b"OK\r\nx-name: caf\xc3\xa9"),
        "of an older version that keeps": OK.replace(b"1.1", b"1.0").replace(
            b"OK", b"OK\r\nconnection: keep-alive"
        ),
    }.items(),
    ids=lambda item: item[0],
)
async def test_an_answer_that_ends_leaves_its_connection(said: tuple[str, Said]) -> None:
    async with serving(said[1], OK) as (server, client):
        assert await asked(client, server) == b"ok"
        assert await asked(client, server) == b"ok"
        assert server.connections == 1


@pytest.mark.parametrize(
    "said",
    {
        "says so": OK.replace(b"content", b"connection: close\r\ncontent"),
        "is of an older version": OK.replace(b"1.1", b"1.0"),
        "is followed by what nobody asked for": OK + OK,
        "is longer than it says": OK + b"more",
    }.items(),
    ids=lambda item: item[0],
)
async def test_a_connection_is_not_used_again_if_its_answer(said: tuple[str, bytes]) -> None:
    async with serving(said[1], OK) as (server, client):
        assert await asked(client, server) == b"ok"
        assert await asked(client, server) == b"ok"
        assert server.connections == 2


def whole(body: bytes, *, more: bytes = b"") -> bytes:
    head = b"HTTP/1.1 200 OK\r\nserver: s\r\nContent-Length: %d\r\n%bx-last: 1\r\n\r\n"
    return head % (len(body), more) + body


async def test_a_head_that_is_known_is_read_as_the_first_one() -> None:
    bodies = [b"1", b"", b"x" * 12345, b"HTTP/1.1 200 OK\r\n\r\n", b"2"]
    async with serving(*map(whole, bodies)) as (server, client):
        for body in bodies:
            answer = await client.send(Prepared("POST", server.url, {}, b"{}"))
            assert await answer.read(100_000) == body
            assert answer.headers == {"server": "s", "content-length": str(len(body)), "x-last": "1"}
        assert server.connections == 1


OTHERS: dict[str, tuple[Said, bytes]] = {
    "comes byte by byte": (by_bytes(whole(b"two")), b"two"),
    "has another header": (whole(b"two", more=b"x-more: 1\r\n"), b"two"),
    "is told to wait for": (b"HTTP/1.1 100 Continue\r\n\r\n" + whole(b"two"), b"two"),
    "sets a cookie": (whole(b"two", more=b"set-cookie: a=1\r\n"), b"two"),
    "is another status": (whole(b"two").replace(b"200", b"201"), b"two"),
    "is in chunks": (CHUNKED, b"ok"),
    "has line feeds alone": (whole(b"two").replace(b"\r\n", b"\n"), b"two"),
}


@pytest.mark.parametrize("said", OTHERS.items(), ids=lambda item: item[0])
async def test_a_head_is_read_anew_if_its_answer(said: tuple[str, tuple[Said, bytes]]) -> None:
    other, body = said[1]
    async with serving(whole(b"one"), other, other, whole(b"three")) as (server, client):
        found = [await asked(client, server, "POST", b"{}") for _ in range(4)]
        assert found == [b"one", body, body, b"three"]
        assert server.connections == 1


async def test_a_head_that_is_known_has_no_body_where_none_was_asked_for() -> None:
    head = whole(b"one")[:-3]
    async with serving(whole(b"one"), head, whole(b"two")) as (server, client):
        found = [await asked(client, server, method) for method in ("GET", "HEAD", "GET")]
        assert found == [b"one", b"", b"two"]
        assert server.connections == 1


@pytest.mark.parametrize(
    "said",
    {
        "longer than it says": whole(b"two") + b"more",
        "followed by what nobody asked for": whole(b"two") + whole(b"evil"),
    }.items(),
    ids=lambda item: item[0],
)
async def test_a_known_head_hides_no_answer_that_is(said: tuple[str, bytes]) -> None:
    async with serving(whole(b"one"), said[1], whole(b"three")) as (server, client):
        found = [await asked(client, server) for _ in range(3)]
        assert found == [b"one", b"two", b"three"]
        assert server.connections == 2


async def test_a_known_head_makes_no_answer_of_less_than_it_says() -> None:
    async with serving((whole(b"one")), whole(b"two!")[:-1], None) as (server, client):
        assert await asked(client, server) == b"one"
        answer = await client.send(Prepared("GET", server.url))
        assert not answer.is_complete
        answer.release()
        with pytest.raises(UnreachableError):
            await asked(client, server)
        assert server.connections == 2


async def test_what_comes_on_a_connection_at_rest_ends_it() -> None:
    """It would be taken for the answer to the next request."""
    async with serving((OK, b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil"), OK) as (server, client):
        assert await asked(client, server) == b"ok"
        while not server.ended:
            await asyncio.sleep(0)
        assert await asked(client, server) == b"ok"
        assert server.connections == 2


async def test_an_answer_may_end_with_its_connection() -> None:
    heads = iter([b"", b"transfer-encoding: identity\r\n"])

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n" + next(heads) + b"\r\nall of it")
        writer.close()

    async with listening(serve) as url, contextlib.aclosing(HttpClient(30)) as client:
        for _ in range(2):
            assert await (await client.send(Prepared("GET", url))).read(100) == b"all of it"


@contextlib.asynccontextmanager
async def listening(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], host: str = "127.0.0.1"
) -> AsyncIterator[str]:
    async with await asyncio.start_server(serve, host, 0) as server:
        yield f"http://{host}:{server.sockets[0].getsockname()[1]}/"


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\nnonsense\r\n",
    ],
)
async def test_an_answer_that_breaks_off_is_lost(said: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        writer.close()

    async with listening(serve) as url, contextlib.aclosing(HttpClient(30)) as client:
        answer = await client.send(Prepared("GET", url))
        with pytest.raises(LostError):
            await answer.read(100)
        answer.release()


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", "HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 300 + b"\r\n", "more than 256 headers"),
        (b"HTTP/1.1 200 OK\r\na: " + b"b" * 70_000 + b"\r\n\r\n", "larger than 65536 bytes"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 4000, "larger than 65536 bytes"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", "HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok", "HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\nok", "HTTP/1.1"),
    ],
)
async def test_a_head_that_is_none_is_refused(said: bytes, words: str) -> None:
    async with serving(said) as (server, client):
        with pytest.raises(UnreachableError, match=words) as caught:
            await client.send(Prepared("GET", server.url))
        assert caught.value.sent


async def test_more_between_the_pieces_than_in_them_is_refused() -> None:
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\no\r\n1;"
    async with serving((head, *itertools.repeat(b"x" * 10_000, 50))) as (server, client):
        answer = await client.send(Prepared("GET", server.url))
        with pytest.raises(LostError, match="more between the pieces"):
            await answer.read(1_000_000)


@pytest.mark.parametrize("length", [b"content-length: 1000000\r\n", b"transfer-encoding: chunked\r\n"])
async def test_a_head_alone_leaves_its_connection(length: bytes) -> None:
    async with serving(b"HTTP/1.1 200 OK\r\n" + length + b"\r\n", OK) as (server, client):
        assert await asked(client, server, "HEAD") == b""
        assert await asked(client, server) == b"ok"
        assert server.connections == 1


async def test_a_head_with_a_body_does_not() -> None:
    async with serving(OK, OK) as (server, client):
        assert await asked(client, server, "HEAD") == b""
        assert await asked(client, server) == b"ok"
        assert server.connections == 2


async def test_nothing_is_held_that_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that sends without end fills the buffers of the system, not our memory."""
    monkeypatch.setattr(connection, "BUFFERED", 10_000)
    endless = itertools.chain(
        [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"],
        itertools.repeat(b"10000\r\n" + b"x" * 65536 + b"\r\n"),
    )

    class Endless(Server):
        def __init__(self) -> None:
            super().__init__()
            self._answers = iter([endless])  # type: ignore[assignment]

    server = Endless()
    async with (
        await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening,
        contextlib.aclosing(HttpClient(30)) as client,
    ):
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
        answer = await client.send(Prepared("GET", url))
        while not answer._connection._is_paused:
            await asyncio.sleep(0)
        held = sum(map(len, answer._pieces))
        for _ in range(100):
            await asyncio.sleep(0)
        assert sum(map(len, answer._pieces)) == held
        with pytest.raises(TooLargeError):
            await answer.read(5_000_000)
        answer.release()


async def test_a_large_request_ends_when_it_has_its_answer() -> None:
    """A server that refuses a file does not read it."""
    refused = b"HTTP/1.1 413 X\r\ncontent-length: 2\r\n\r\nno"
    async with serving(refused, OK) as (server, client):
        answer = await client.send(Prepared("POST", server.url, {}, b"x" * 100_000_000))
        assert (answer.status, await answer.read(100)) == (413, b"no")
        assert await asked(client, server) == b"ok"
        assert server.connections == 2


async def test_a_large_request_ends_when_it_has_its_answer_and_nobody_takes_the_rest() -> None:
    """The head of an answer is enough to send no more, however long the rest takes."""
    is_known, over = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await reader.read(1000)  # by now the client waits for room
        writer.write(b"HTTP/1.1 413 X\r\ncontent-length: 2\r\n\r\nn")
        await is_known.wait()
        writer.write(b"o")
        await over.wait()
        writer.close()

    async with listening(serve) as url, contextlib.aclosing(HttpClient(30)) as client:
        async with asyncio.timeout(PATIENCE):
            answer = await client.send(Prepared("POST", url, {}, b"x" * 100_000_000))
        is_known.set()
        assert (answer.status, await answer.read(100)) == (413, b"no")
        over.set()


async def test_a_connection_is_not_used_again_if_a_request_was_not_written_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its rest is still to be sent, and would stand before the next request."""
    size = 20_000_000
    monkeypatch.setattr(connection, "PIECE", size)
    connections, is_known, over = 0, asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readuntil(b"\r\n\r\n")
        if connections == 1:
            await reader.readexactly(size + 1)  # by now the client waits for room for its last piece
        writer.write(OK[:-1])
        await is_known.wait()
        writer.write(OK[-1:])
        await over.wait()
        writer.close()

    async with listening(serve) as url, contextlib.aclosing(HttpClient(30)) as client:
        async with asyncio.timeout(PATIENCE):
            for body in (b"x" * 2 * size, None):
                answer = await client.send(Prepared("POST", url, {}, body))
                is_known.set()
                assert await answer.read(100) == b"ok"
        assert connections == 2
        over.set()


async def test_a_large_request_is_given_up_if_nobody_takes_it() -> None:
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await over.wait()
        writer.close()

    async with listening(serve) as url, contextlib.aclosing(HttpClient(30)) as client:
        # So that it is connected, which has the same time.
        await (await client.send(Prepared("GET", url))).read(100)
        with pytest.raises(UnreachableError, match="took no more of the request in time") as caught:
            await client.send(Prepared("POST", url, {}, b"x" * 100_000_000), timeout=0.05)
        assert caught.value.sent
        assert caught.value.is_silence
        over.set()


async def test_a_connection_takes_no_longer_than_one_may() -> None:
    """However long the answer may take: a server whose queue is full says nothing at all."""
    with contextlib.ExitStack() as closing:
        full = closing.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(2):
            waiting = closing.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        url = f"http://127.0.0.1:{full.getsockname()[1]}/"
        async with contextlib.aclosing(HttpClient(0.05)) as client, asyncio.timeout(PATIENCE):
            with pytest.raises(UnreachableError, match="cannot be connected to in time") as caught:
                await client.send(Prepared("GET", url), timeout=3600)
        assert not caught.value.sent


async def test_whoever_leaves_ends_the_connection() -> None:
    arrived, gone = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        arrived.set()
        await reader.read()
        gone.set()
        writer.close()

    async with listening(serve) as url, contextlib.aclosing(HttpClient(30)) as client:
        waiting = asyncio.create_task(client.send(Prepared("GET", url)))
        await arrived.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await gone.wait()


async def test_closing_a_client_ends_what_waits() -> None:
    arrived = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        arrived.set()
        await reader.read()
        writer.close()

    async with listening(serve) as url:
        client = HttpClient(30)
        waiting = asyncio.create_task(client.send(Prepared("GET", url)))
        await arrived.wait()
        await client.aclose()
        with pytest.raises(UnreachableError, match="closed here"):
            await waiting


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nha"])
async def test_each_step_has_a_time(said: bytes) -> None:
    async with serving(OK, said) as (server, client):
        await asked(client, server)  # so that it is connected, which has the same time
        with pytest.raises((UnreachableError, LostError), match="nothing came from it in time"):
            await (await client.send(Prepared("GET", server.url), timeout=0.02)).read(100)


async def test_connections_that_rest_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "KEPT_FOR", 0.01)
    async with serving(OK, OK) as (server, client):
        await asyncio.gather(asked(client, server), asked(client, server))
        while server.ended < 2:
            await asyncio.sleep(0.001)
        assert not client._connections._resting
        assert not client._connections._places


async def test_the_next_address_is_tried_beside_one_that_does_not_answer(
    echo: EchoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def found(_host: str) -> list[str]:
        return ["127.0.0.9", PUBLIC, "127.0.0.1"]

    real = public._connected

    async def connected(address: str, port: int, *, public_only: bool) -> object:
        if address == PUBLIC:
            await asyncio.get_running_loop().create_future()  # as where packets are dropped
        return await real(address, port, public_only=public_only)

    monkeypatch.setattr(public, "_connected", connected)
    monkeypatch.setattr(public.addresses, "addresses_of", found)
    monkeypatch.setattr(public, "HEAD_START", 0.01)
    async with contextlib.aclosing(HttpClient(30)) as client:
        url = echo.url.replace("127.0.0.1", "many.test")
        await (await client.send(Prepared("GET", url))).read(100)
    assert echo.last.address == "127.0.0.1"


async def test_a_host_none_of_whose_addresses_answers_was_never_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def found(_host: str) -> list[str]:
        return ["127.0.0.1", PUBLIC]

    monkeypatch.setattr(public.addresses, "addresses_of", found)
    async with contextlib.aclosing(HttpClient(30)) as client:
        with pytest.raises(UnreachableError) as caught:
            await client.send(Prepared("GET", "http://none.test:1/"))
    assert not caught.value.sent


# --- proxies


@contextlib.asynccontextmanager
async def tunnelling(refuses: bool, wanted: list[bytes]) -> AsyncIterator[str]:
    """The address of a proxy that connects its clients with whom they ask for, at PUBLIC."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        wanted.append(head)
        if refuses:
            writer.write(b"HTTP/1.1 407 Who\r\ncontent-length: 3\r\n\r\nno!")
            writer.close()
            return
        port = int(head.split(b" ")[1].rpartition(b":")[2])
        there = await asyncio.open_connection(PUBLIC, port)
        writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))

    async with listening(serve) as url:
        yield url


@pytest.fixture
def proxied(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def through(url: str) -> None:
        for name in ("NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy", "https_proxy"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HTTPS_PROXY", url)

    return through


async def test_a_proxy_connects_and_hears_nothing(
    secure: EchoServer, proxied: Callable[[str], None], names: dict[str, list[str]]
) -> None:
    names["good.test"] = [PUBLIC]
    wanted: list[bytes] = []
    async with tunnelling(False, wanted) as url:
        proxied(url.replace("//", "//me:pw@"))
        async with contextlib.aclosing(HttpClient(30)) as client:
            for _ in range(2):
                answer = await client.send(Prepared("GET", f"{secure.url}/secret", {"x-key": "s3cret"}))
                assert await answer.read(100) == b"{}"
        assert secure.connections == 1
    (head,) = wanted
    port = secure.url.rpartition(":")[2].encode()
    assert head.startswith(b"CONNECT good.test:" + port + b" HTTP/1.1\r\n")
    assert b"proxy-authorization: Basic bWU6cHc=\r\n" in head
    assert b"secret" not in head
    assert "proxy-authorization" not in secure.last.own_headers


async def test_the_certificate_behind_a_proxy_is_checked(
    secure: EchoServer, proxied: Callable[[str], None], names: dict[str, list[str]]
) -> None:
    names["other.test"] = [PUBLIC]
    async with tunnelling(False, []) as url:
        proxied(url)
        async with contextlib.aclosing(HttpClient(30)) as client:
            with pytest.raises(UnreachableError, match="certificate cannot be trusted") as caught:
                await client.send(Prepared("GET", secure.url.replace("good", "other")))
    assert not caught.value.sent
    assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)


async def test_a_proxy_that_refuses_is_named(proxied: Callable[[str], None]) -> None:
    async with tunnelling(True, []) as url:
        proxied(url)
        async with contextlib.aclosing(HttpClient(30)) as client:
            with pytest.raises(UnreachableError, match=r"the proxy makes no connection.*407") as caught:
                await client.send(Prepared("GET", "https://away.test/"))
    assert not caught.value.sent


async def test_a_session_of_cookies_is_bounded(echo: EchoServer) -> None:
    echo.answers["/a"] = Answer(headers={"set-cookie": "a=1"})
    async with contextlib.aclosing(HttpClient(30, keeps_cookies=True)) as client:
        for number in range(200):
            echo.answers["/a"].headers["set-cookie"] = f"c{number}=1"
            await (await client.send(Prepared("GET", f"{echo.url}/a", {"cookie": "c0=mine"}))).read(100)
        sent = dict(echo.last.headers)["cookie"].split("; ")
    assert sent[0] == "c0=mine"
    assert len(sent) == 64


# --- the event loop that `spindle serve` runs on


@pytest.mark.parametrize(
    "test",
    [
        test_a_head_that_is_known_is_read_as_the_first_one,
        test_a_head_that_is_known_has_no_body_where_none_was_asked_for,
        test_a_known_head_makes_no_answer_of_less_than_it_says,
        test_what_comes_on_a_connection_at_rest_ends_it,
        test_an_answer_may_end_with_its_connection,
        test_a_head_with_a_body_does_not,
        test_a_large_request_ends_when_it_has_its_answer,
        test_whoever_leaves_ends_the_connection,
        test_closing_a_client_ends_what_waits,
    ],
)
def test_the_same_holds_where_requests_are_served(test: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await test()

    uvloop.run(run())


@pytest.mark.parametrize("is_proxied", [False, True])
def test_secrets_are_sent_where_requests_are_served(
    is_proxied: bool,
    certificate: tuple[ssl.SSLContext, ssl.SSLContext],
    names: dict[str, list[str]],
    proxied: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names["good.test"] = [PUBLIC]
    server, trusting = certificate
    monkeypatch.setattr(pool, "shared_ssl_context", lambda: trusting)

    async def found(_host: str) -> list[str]:
        return [PUBLIC if _host == "good.test" else _host]

    monkeypatch.setattr(public.addresses, "addresses_of", found)
    wanted: list[bytes] = []

    async def run() -> None:
        echo = EchoServer()
        async with (
            await asyncio.start_server(echo.serve, PUBLIC, 0, ssl=server) as listening,
            tunnelling(False, wanted) as proxy,
        ):
            if is_proxied:
                proxied(proxy)
            url = f"https://good.test:{listening.sockets[0].getsockname()[1]}/"
            async with contextlib.aclosing(HttpClient(30)) as client:
                for body in (b"small", b"x" * 3_000_000):
                    answer = await client.send(Prepared("POST", url, {}, body))
                    assert await answer.read(100) == b"{}"
                    assert echo.last.body == body
                assert echo.connections == 1

    uvloop.run(run())
    assert len(wanted) == int(is_proxied)
