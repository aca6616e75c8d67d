"""Connections to checked addresses: TLS still asks for the name."""

import httpx2
import pytest

from servers.echo_server import PUBLIC, EchoServer
from spindle.sources.reach import InsideError, Reach


async def test_tls_is_about_the_name_and_not_about_the_address(
    secure: EchoServer, names: dict[str, list[str]]
) -> None:
    names |= {"good.test": [PUBLIC], "other.test": [PUBLIC]}
    reach = Reach(httpx2.Timeout(30))
    try:
        response = await reach.send("GET", httpx2.URL(secure.url), public_only=True)
        assert response.status_code == 200
        assert not await reach.is_from_inside(response)
        await response.aread()
        # The kept connection to the same address must not serve another name.
        with pytest.raises(httpx2.ConnectError, match=r"other\.test"):
            await reach.send("GET", httpx2.URL(secure.url.replace("good", "other")), public_only=True)
    finally:
        await reach.aclose()


async def test_behind_a_proxy_names_are_checked_before_each_request(
    names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch, echo: EchoServer
) -> None:
    """The proxy resolves names; the requests go through it as anywhere else."""
    monkeypatch.setenv("HTTP_PROXY", echo.url)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    names |= {"away.test": [PUBLIC], "here.test": ["127.0.0.1"]}
    reach = Reach(httpx2.Timeout(30))
    try:
        response = await reach.send("GET", httpx2.URL("http://away.test/x"), public_only=True)
        await response.aread()
        assert echo.last.target == "http://away.test/x"
        assert not await reach.is_from_inside(response)
        with pytest.raises(InsideError):
            await reach.send("GET", httpx2.URL("http://here.test/x"), public_only=True)
    finally:
        await reach.aclose()
    assert len(echo.requests) == 1
