"""Bodies that are too large, packed or cut off, through everything that reads them."""

import asyncio
import gzip
import itertools

import outbound
import pytest
from outbound import LIMIT, READING

from servers.echo_server import Answer, EchoServer
from spindle.auth import issuer
from spindle.auth.oauth import http as oauth_http
from spindle.errors import ConfigurationError, ConnectionFailedError, ResultTooLargeError, ServerError

# Each part has words of its own for an answer that is too large.
TOO_LARGE = {
    "openapi": (ResultTooLargeError, "larger than 1000 bytes"),
    "utcp": (ResultTooLargeError, "larger than 1000 bytes"),
    "documents": (ConfigurationError, "is too large: over 1000 bytes"),
    "oauth": (ServerError, "more than 1000 bytes"),
    "keys": (ConnectionFailedError, "more than 1000 bytes"),
}
BOMB = gzip.compress(b" " * 1_000_000)
LARGE = {
    "by one byte": lambda: Answer(b" " * (LIMIT + 1)),
    "without an end": lambda: Answer(pieces=itertools.repeat(b" " * 1000)),
    "when unpacked": lambda: Answer(BOMB, headers={"content-encoding": "gzip"}),
    "when unpacked, in pieces": lambda: Answer(
        pieces=[BOMB[at : at + 10] for at in range(0, len(BOMB), 10)], headers={"content-encoding": "gzip"}
    ),
}


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oauth_http, "MAX_BODY", LIMIT)
    monkeypatch.setattr(issuer, "MAX_KEYS_SIZE", LIMIT)


@pytest.mark.parametrize("case", LARGE)
@pytest.mark.parametrize("who", READING)
async def test_an_answer_over_the_limit_is_given_up(who: str, case: str, echo: EchoServer) -> None:
    echo.answers["/a"] = LARGE[case]()
    kind, words = TOO_LARGE[who]
    if who == "oauth" and "unpacked" in case:
        words = "compressed answer, which was not asked for"
    with pytest.raises(kind, match=words):
        await READING[who]("GET", f"{echo.url}/a", {}, None)


@pytest.mark.parametrize("who", READING)
async def test_an_answer_that_announces_too_much_is_not_waited_for(who: str, echo: EchoServer) -> None:
    """Nothing of it ever comes."""
    echo.answers["/a"] = Answer(b"", headers={"content-length": str(LIMIT + 1)})
    kind, words = TOO_LARGE[who]
    with pytest.raises(kind, match=words):
        await READING[who]("GET", f"{echo.url}/a", {}, None)


@pytest.mark.parametrize("who", READING)
async def test_an_answer_of_the_very_size_is_read(who: str, echo: EchoServer) -> None:
    body = b'{"keys": []}'
    echo.answers["/a"] = Answer(body + b" " * (LIMIT - len(body)))
    await READING[who]("GET", f"{echo.url}/a", {}, None)


@pytest.mark.parametrize("who", READING)
async def test_an_answer_that_breaks_off_is_a_lost_connection(who: str, echo: EchoServer) -> None:
    echo.answers["/a"] = Answer(b"{}", break_off=True)
    with pytest.raises(ConnectionFailedError):
        await READING[who]("GET", f"{echo.url}/a", {}, None)


@pytest.mark.parametrize("who", READING)
async def test_an_answer_that_cannot_be_unpacked_is_the_servers_fault(who: str, echo: EchoServer) -> None:
    echo.answers["/a"] = Answer(b"not gzip", headers={"content-encoding": "gzip"})
    # To those who show a token, keys that cannot be had are like a server that cannot be reached.
    with pytest.raises(ConnectionFailedError if who == "keys" else ServerError):
        await READING[who]("GET", f"{echo.url}/a", {}, None)


@pytest.mark.parametrize("who", ["documents", "oauth", "keys"])
async def test_an_answer_that_never_ends_is_not_waited_for(
    who: str, echo: EchoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbound, "SECONDS", 0.05)
    monkeypatch.setattr(oauth_http.OAuthHttp, "timeout", 0.05)
    monkeypatch.setattr(issuer, "FETCH_TIMEOUT", 0.05)
    over = asyncio.Event()
    echo.answers["/a"] = Answer(b"{", headers={"content-length": "10"}, then=over)
    with pytest.raises(ConnectionFailedError):
        await READING[who]("GET", f"{echo.url}/a", {}, None)
    over.set()


async def test_what_a_head_announces_is_not_its_body(echo: EchoServer) -> None:
    echo.answers["/a"] = Answer(b"", headers={"content-length": "10000000"})
    for who in ("openapi", "utcp"):
        await READING[who]("HEAD", f"{echo.url}/a", {}, None)
