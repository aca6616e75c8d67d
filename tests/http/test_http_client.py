"""Connections to checked addresses: TLS still asks for the name, and nothing goes around the check."""

import contextlib
import re
from pathlib import Path

import httpcore2
import httpx2
import pytest

from servers.echo_server import PUBLIC, Answer, EchoServer
from spindle.domain.identity import Credential
from spindle.http import client as http_client
from spindle.http import pinned
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


# --- the HTTP library


def test_nothing_else_imports_the_http_library() -> None:
    """MCP's transports are given a client of the library; all others go through ours."""
    package = Path(http_client.__file__).parent.parent
    importing = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if re.search(r"^\s*(?:import|from) (?:httpx2|httpcore2)\b", path.read_text("utf-8"), re.MULTILINE)
    }
    ours = {f"http/{name}.py" for name in ("addresses", "client", "pinned")}
    assert importing == {*ours, "sources/mcp/http_client.py"}


def test_every_connection_of_a_bound_client_goes_through_our_network() -> None:
    """An upgrade of httpx2 or httpcore2 that fails here may connect to addresses that nobody checked."""
    transport = pinned.public_transport(http_client.shared_ssl_context(), httpx2.Limits())
    pinned.require_pinned(httpx2.AsyncClient(transport=transport))


@pytest.mark.parametrize("case", ["another transport", "another network", "a way around"])
def test_a_client_that_goes_around_our_network_is_not_made(case: str) -> None:
    context = http_client.shared_ssl_context()
    transport = pinned.public_transport(context, httpx2.Limits())
    client = httpx2.AsyncClient(transport=transport)
    if case == "another transport":
        client = httpx2.AsyncClient(transport=httpx2.AsyncHTTPTransport(verify=context))
    elif case == "another network":
        transport._pool = httpcore2.AsyncConnectionPool()
    else:
        client._mounts = {object(): None}  # type: ignore[dict-item]
    with pytest.raises(RuntimeError, match="where Spindle checks their addresses"):
        pinned.require_pinned(client)


def test_a_library_without_the_pool_we_know_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(httpx2, "AsyncHTTPTransport", lambda **_: object())
    with pytest.raises(RuntimeError, match="where Spindle checks their addresses"):
        pinned.public_transport(http_client.shared_ssl_context(), httpx2.Limits())
