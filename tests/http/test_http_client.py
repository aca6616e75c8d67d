"""Connections to checked addresses: TLS still asks for the name, and nothing goes around the check."""

import asyncio
import contextlib
import gzip
import re
import zlib
from pathlib import Path

import pytest

from servers.echo_server import PUBLIC, Answer, EchoServer
from spindle.domain.identity import Credential
from spindle.http import client as http_client
from spindle.http import connection, public
from spindle.http.client import HttpClient
from spindle.http.failures import InsideError, UnreachableError
from spindle.http.request import Prepared, with_credential


async def test_tls_is_about_the_name_and_not_about_the_address(
    secure: EchoServer, names: dict[str, list[str]]
) -> None:
    names |= {"good.test": [PUBLIC], "other.test": [PUBLIC]}
    async with contextlib.aclosing(HttpClient(30)) as client:
        answer = await client.send(Prepared("GET", secure.url), public_only=True)
        assert answer.status == 200
        assert not await answer.is_from_inside()
        await answer.read(1000)
        # The kept connection to the same address must not serve another name.
        with pytest.raises(UnreachableError, match=r"other\.test"):
            await client.send(Prepared("GET", secure.url.replace("good", "other")), public_only=True)


async def test_behind_a_proxy_names_are_checked_before_each_request(
    names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch, echo: EchoServer
) -> None:
    """The proxy resolves names; the requests go through it as anywhere else."""
    monkeypatch.setenv("HTTP_PROXY", echo.url)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    names |= {"away.test": [PUBLIC], "here.test": ["127.0.0.1"]}
    async with contextlib.aclosing(HttpClient(30)) as client:
        answer = await client.send(Prepared("GET", "http://away.test/x"), public_only=True)
        assert not await answer.is_from_inside()
        await answer.read(1000)
        assert echo.last.target == "http://away.test/x"
        with pytest.raises(InsideError):
            await client.send(Prepared("GET", "http://here.test/x"), public_only=True)
    assert len(echo.requests) == 1


async def test_a_proxy_is_shown_its_password_and_gone_around_where_that_is_said(
    names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch, echo: EchoServer
) -> None:
    names |= {"away.test": [PUBLIC], "around.test": [PUBLIC], "here.test": ["127.0.0.1"]}
    monkeypatch.setenv("HTTP_PROXY", echo.url.replace("//", "//me:pw@"))
    monkeypatch.setenv("NO_PROXY", "around.test,here.test")
    monkeypatch.delenv("no_proxy", raising=False)
    async with contextlib.aclosing(HttpClient(30)) as client:
        await (await client.send(Prepared("GET", "http://away.test/x"))).read(1000)
        assert echo.last.target == "http://away.test/x"
        assert echo.last.own_headers["proxy-authorization"] == "Basic bWU6cHc="
        port = echo.url.rpartition(":")[2]
        answer = await client.send(Prepared("GET", f"http://around.test:{port}/y"), public_only=True)
        await answer.read(1000)
        assert (echo.last.target, echo.last.address) == ("/y", PUBLIC)
        with pytest.raises(InsideError):
            await client.send(Prepared("GET", f"http://here.test:{port}/z"), public_only=True)


async def test_a_proxy_of_another_kind_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    for name in ("NO_PROXY", "no_proxy", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    async with contextlib.aclosing(HttpClient(30)) as client:
        with pytest.raises(UnreachableError, match="socks5") as caught:
            await client.send(Prepared("GET", "http://away.test/x"))
    assert not caught.value.sent


async def test_a_cookie_is_not_sent_back(echo: EchoServer) -> None:
    echo.answers["/a"] = Answer(headers={"set-cookie": "a=1"})
    async with contextlib.aclosing(HttpClient(30)) as client:
        for _ in range(2):
            await (await client.send(Prepared("GET", f"{echo.url}/a"))).read(1000)
    assert "cookie" not in echo.last.own_headers


async def test_connections_are_kept(echo: EchoServer) -> None:
    async with contextlib.aclosing(HttpClient(30)) as client:
        for _ in range(3):
            answer = await client.send(Prepared("GET", f"{echo.url}/a"))
            await answer.read(1000)
            await answer.aclose()
    assert echo.connections == 1


@pytest.mark.parametrize("url", ["http://a:b", "http://[", "nothing", "", "ftp://127.0.0.1/"])
async def test_an_address_that_cannot_be_asked_is_unreachable(url: str) -> None:
    async with contextlib.aclosing(HttpClient(30)) as client:
        with pytest.raises(UnreachableError) as caught:
            await client.send(Prepared("GET", url))
    assert not caught.value.sent


def test_a_credential_takes_the_place_of_what_has_its_name() -> None:
    credential = Credential(
        headers=(("X-Key", "new"),), query=(("k", "a&b"),), cookies=(("c", "1"), ("d", "2"))
    )
    request = Prepared("GET", "http://a.test/x?k=old&q=1#part", {"x-key": "old", "cookie": "b=0"})
    shown = with_credential(request, credential)
    assert shown.url == "http://a.test/x?q=1&k=a%26b"
    assert shown.headers == {"x-key": "new", "cookie": "b=0; c=1; d=2"}


# --- connections


def test_nothing_makes_connections_beside_ours() -> None:
    """All that leaves goes through our client, whose connections are made in one place. `agents/model_client`
    gives it the shape that the libraries of providers take."""
    package = Path(http_client.__file__).parent.parent
    importing = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if re.search(
            r"^\s*(?:import|from) (?:aiohttp|httpx2?|requests)\b", path.read_text("utf-8"), re.MULTILINE
        )
    }
    assert importing == {"agents/model_client.py"}
    making = {
        path.relative_to(package).as_posix()
        for path in (package / "http").rglob("*.py")
        if re.search(r"socket\.socket\(|sock_connect|open_connection", path.read_text("utf-8"))
    }
    assert making == {"http/public.py"}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
async def test_a_bound_request_makes_no_connection_inside(host: str) -> None:
    async with contextlib.aclosing(HttpClient(30)) as client:
        with pytest.raises(InsideError):
            await client.send(Prepared("GET", f"http://{host}:1/"), public_only=True)


async def test_each_address_is_checked_where_its_socket_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong before: nothing that is inside gets a socket."""

    async def unchecked(_host: str) -> list[str]:
        return ["127.0.0.1"]

    monkeypatch.setattr(public, "public_addresses", unchecked)
    async with contextlib.aclosing(HttpClient(30)) as client:
        with pytest.raises(InsideError):
            await client.send(Prepared("GET", "http://away.test:1/"), public_only=True)


async def test_a_connection_that_was_not_checked_is_not_used_where_it_must_be(
    echo: EchoServer, names: dict[str, list[str]]
) -> None:
    names["twice.test"] = [PUBLIC]
    url = echo.url.replace("127.0.0.1", "twice.test")
    async with contextlib.aclosing(HttpClient(30)) as client:
        for public_only in (False, True, False, True):
            await (await client.send(Prepared("GET", url), public_only=public_only)).read(1000)
    assert echo.connections == 2


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_what_may_have_arrived_is_not_sent_again(method: str, echo: EchoServer) -> None:
    server = await asyncio.start_server(_answers_once, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, contextlib.aclosing(HttpClient(30)) as client:
        await (await client.send(Prepared(method, url))).read(1000)
        with pytest.raises(UnreachableError) as caught:
            await client.send(Prepared(method, url))
    assert caught.value.sent
    assert _arrived == [method.encode()] * 2
    _arrived.clear()


_arrived: list[bytes] = []


async def _answers_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers the first request, and ends the connection when the second has arrived."""
    for answer in (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", b""):
        head = await reader.readuntil(b"\r\n\r\n")
        _arrived.append(head.split(b" ")[0])
        writer.write(answer)
        await writer.drain()
    writer.close()


async def test_a_connection_that_its_server_closed_is_not_used(
    echo: EchoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop may not have noticed yet."""
    async with contextlib.aclosing(HttpClient(30)) as client:
        await (await client.send(Prepared("POST", f"{echo.url}/a", {}, b"1"))).read(1000)
        monkeypatch.setattr(connection, "is_readable", lambda _poll: True)
        await (await client.send(Prepared("POST", f"{echo.url}/a", {}, b"2"))).read(1000)
    assert [request.body for request in echo.requests] == [b"1", b"2"]
    assert echo.connections == 2


async def test_an_address_is_sent_as_it_is_written(echo: EchoServer) -> None:
    """Decoded and encoded again, some of it would be something else."""
    target = "/a%2Cb,c/%7Ex/%2e?q=%2C%20+%27(!)&r=a%26b&k"
    async with contextlib.aclosing(HttpClient(30)) as client:
        await (await client.send(Prepared("GET", echo.url + target))).read(1000)
    assert echo.last.target == target


async def test_a_user_in_the_address_is_shown_as_one(echo: EchoServer) -> None:
    async with contextlib.aclosing(HttpClient(30)) as client:
        url = echo.url.replace("//", "//me:a%40b@")
        await (await client.send(Prepared("GET", url))).read(1000)
        assert echo.last.own_headers["authorization"] == "Basic bWU6YUBi"
        await (await client.send(Prepared("GET", url, {"authorization": "Bearer x"}))).read(1000)
        assert echo.last.own_headers["authorization"] == "Bearer x"


async def test_a_large_body_is_sent(echo: EchoServer) -> None:
    async with contextlib.aclosing(HttpClient(30)) as client:
        await (await client.send(Prepared("POST", echo.url, {}, b"x" * 3_000_000))).read(1000)
    assert echo.last.body == b"x" * 3_000_000
    assert "content-type" not in echo.last.own_headers


async def test_headers_that_come_twice_are_joined(echo: EchoServer) -> None:
    echo.answers["/a"] = Answer(headers={"Link": "<a>", "link": "<b>"})
    async with contextlib.aclosing(HttpClient(30)) as client:
        answer = await client.send(Prepared("GET", f"{echo.url}/a"))
        assert answer.headers["link"] == "<a>, <b>"
        assert list(answer.headers).count("link") == 1
        await answer.aclose()


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "bare deflate", "gzip, gzip", "two files"])
async def test_a_packed_body_is_unpacked(encoding: str, echo: EchoServer) -> None:
    text = b"hello " * 100_000
    packed = {
        "gzip": gzip.compress(text),
        "deflate": zlib.compress(text),
        "bare deflate": zlib.compress(text)[2:-4],
        "gzip, gzip": gzip.compress(gzip.compress(text)),
        "two files": gzip.compress(text[:1000]) + gzip.compress(text[1000:]),
    }[encoding]
    name = {"bare deflate": "deflate", "two files": "gzip"}.get(encoding, encoding)
    echo.answers["/a"] = Answer(
        pieces=[packed[at : at + 7] for at in range(0, len(packed), 7)], headers={"content-encoding": name}
    )
    async with contextlib.aclosing(HttpClient(30)) as client:
        answer = await client.send(Prepared("GET", f"{echo.url}/a"))
        assert await answer.read(len(text)) == text
        assert dict(echo.last.headers)["accept-encoding"] == "gzip, deflate"


@pytest.mark.parametrize("head", [b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nx: " + b"y" * 200_000])
async def test_an_answer_that_is_not_http_may_have_been_to_a_request_that_arrived(head: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
            await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, contextlib.aclosing(HttpClient(30)) as client:
        with pytest.raises(UnreachableError) as caught:
            await client.send(Prepared("GET", url))
    assert caught.value.sent


async def test_what_cannot_be_a_header_is_never_sent(echo: EchoServer) -> None:
    async with contextlib.aclosing(HttpClient(30)) as client:
        with pytest.raises(UnreachableError) as caught:
            await client.send(Prepared("GET", echo.url, {"x-key": "s3cret\r\nx: y"}))
    assert not caught.value.sent
    assert "s3cret" not in str(caught.value)
    assert not echo.requests


async def test_cookies_of_a_session_are_kept_until_it_is_shared(echo: EchoServer) -> None:
    echo.answers["/a"] = Answer(headers={"set-cookie": "a=1"})
    async with contextlib.aclosing(HttpClient(30, keeps_cookies=True)) as client:
        for _ in range(2):
            await (await client.send(Prepared("GET", f"{echo.url}/a"))).read(1000)
        assert echo.last.own_headers["cookie"] == "a=1"
        client.keep_no_cookies()
        for _ in range(2):
            await (await client.send(Prepared("GET", f"{echo.url}/a"))).read(1000)
    assert "cookie" not in echo.last.own_headers
