"""Tokens of a client's own, from a real token endpoint."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs

import pytest

from spindle.auth.oauth.client_credentials import OwnToken, own_token
from spindle.auth.oauth.http import MAX_BODY, OAuthHttp
from spindle.auth.oauth.single_flight import Flights
from spindle.auth.oauth.token_endpoint import OAuthClient
from spindle.errors import AuthError, ConnectionFailedError, ServerError, SpindleError

GOOD = {"access_token": "t", "token_type": "Bearer", "expires_in": 100}


class Endpoint:
    """Gives its answers one after the other, the last one again and again."""

    def __init__(self) -> None:
        self.url = ""
        self.answers: list[tuple[int, str]] = []
        self.asked: list[tuple[dict[str, str], dict[str, list[str]]]] = []
        self.arrived = asyncio.Event()
        self.go = asyncio.Event()
        self.go.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
            original = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
            headers |= {"authorization": original.get("authorization") or original.get("Authorization") or ""}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            self.asked.append((headers, parse_qs(body.decode())))
            self.arrived.set()
            await self.go.wait()
            status, answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            more = "location: /elsewhere\r\n" if status == 307 else ""
            head = (
                f"HTTP/1.1 {status} Said\r\n{more}content-length: {len(answer)}\r\nconnection: close\r\n\r\n"
            )
            writer.write(head.encode() + answer.encode())
            await writer.drain()
        writer.close()


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    made = Endpoint()
    made.answers = [(200, json.dumps({**GOOD, "access_token": f"t{n}"})) for n in range(5)]
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/token"
    yield made
    server.close()


@pytest.fixture
async def http() -> AsyncIterator[OAuthHttp]:
    made = OAuthHttp()
    yield made
    await made.close()


def a_token(
    http: OAuthHttp, url: str, id: str, secret: str, scope: str | None = None, now: Any = time.monotonic
) -> OwnToken:
    return own_token(http, url, OAuthClient(id, secret, "client_secret_post"), scope, Flights(), now)


class Clock:
    time = 0.0

    def __call__(self) -> float:
        return self.time


async def test_a_token_is_used_until_shortly_before_its_end(endpoint: Endpoint, http: OAuthHttp) -> None:
    clock = Clock()
    tokens = a_token(http, endpoint.url, "me", "secret", "read write", now=clock)
    found = []
    for clock.time in (0, 89, 90.1, 150, 181):
        found.append(await tokens.token())
    assert found == ["t0", "t0", "t1", "t1", "t2"]
    assert endpoint.asked[0][1] == {
        "grant_type": ["client_credentials"], "client_id": ["me"], "client_secret": ["secret"],
        "scope": ["read write"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("lifetime", "end"), [("200", 180.0), (1000, 940.0), (None, None), ("soon", None), (-1, None)]
)
async def test_the_lifetime_may_be_text_or_missing(
    lifetime: object, end: float | None, endpoint: Endpoint, http: OAuthHttp
) -> None:
    endpoint.answers = [
        (200, json.dumps({"access_token": f"t{n}", "expires_in": lifetime})) for n in range(3)
    ]
    clock = Clock()
    tokens = a_token(http, endpoint.url, "me", "secret", now=clock)
    await tokens.token()
    clock.time = 1e9 if end is None else end - 0.1
    assert await tokens.token() == "t0"
    if end is not None:
        clock.time = end + 0.1
        assert await tokens.token() == "t1"


async def test_parallel_callers_share_one_request(endpoint: Endpoint, http: OAuthHttp) -> None:
    endpoint.go.clear()
    tokens = a_token(http, endpoint.url, "me", "secret")
    callers = [asyncio.create_task(tokens.token()) for _ in range(5)]
    await endpoint.arrived.wait()
    # Who asked first gives up; the others do not suffer from that.
    callers[0].cancel()
    endpoint.go.set()
    found = await asyncio.gather(*callers, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert len(set(found[1:])) == 1
    assert len(endpoint.asked) <= 2


async def test_only_the_token_in_use_is_dropped(endpoint: Endpoint, http: OAuthHttp) -> None:
    tokens = a_token(http, endpoint.url, "me", "secret")
    first = await tokens.token()
    second = await tokens.token(refused=first)
    assert [first, second, await tokens.token(refused=first)] == ["t0", "t1", "t1"]


async def test_a_server_that_wants_the_client_in_a_header_gets_it_there(
    endpoint: Endpoint, http: OAuthHttp
) -> None:
    endpoint.answers = [
        (401, "{}"),
        (200, json.dumps(GOOD)),
        (200, json.dumps({**GOOD, "access_token": "u"})),
    ]
    tokens = a_token(http, endpoint.url, "m:e", "sé")
    assert await tokens.token() == "t"
    assert await tokens.token(refused="t") == "u"
    by_header = [bool(headers["authorization"]) for headers, _ in endpoint.asked]
    assert by_header == [False, True, True]
    assert endpoint.asked[1][0]["authorization"] == "Basic bSUzQWU6cyVDMyVBOQ=="
    assert "client_secret" not in endpoint.asked[1][1]


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        ((400, '{"error": "bad_scope", "error_description": "no such"}'), AuthError, "bad_scope: no such"),
        ((500, "oops"), ServerError, "HTTP status 500"),
        ((200, "{}"), ServerError, "not what OAuth prescribes"),
        ((200, "not json"), ServerError, "not what OAuth prescribes"),
        ((200, "[]"), ServerError, "not what OAuth prescribes"),
        ((200, '{"access_token": "a\\nb"}'), ServerError, "not what OAuth prescribes"),
        ((307, ""), ServerError, "which is not followed"),
        ((200, " " * (MAX_BODY + 1)), ServerError, "more than"),
    ],
)  # fmt: skip
async def test_what_goes_wrong_is_told_without_the_secret(
    answer: tuple[int, str],
    kind: type[SpindleError],
    said: str,
    endpoint: Endpoint,
    http: OAuthHttp,
) -> None:
    endpoint.answers = [answer]
    tokens = a_token(http, f"{endpoint.url}?key=hidden", "me", "the-secret")
    with pytest.raises(kind, match=said) as caught:
        await tokens.token()
    assert not caught.value.sent
    assert "the-secret" not in repr(caught.value.to_dict())
    assert "hidden" not in caught.value.message


async def test_an_endpoint_that_is_not_there_or_not_allowed_is_an_error(http: OAuthHttp) -> None:
    with pytest.raises(ConnectionFailedError, match=r"cannot reach http://127\.0\.0\.1:1"):
        await a_token(http, "http://127.0.0.1:1/t", "me", "s").token()
    with pytest.raises(AuthError, match="not encrypted"):
        await a_token(http, "http://a.test/t", "me", "s").token()


async def test_an_endpoint_that_does_not_answer_is_not_waited_for(
    endpoint: Endpoint, http: OAuthHttp
) -> None:
    endpoint.go.clear()
    http.timeout = 0.05
    with pytest.raises(ConnectionFailedError, match="did not answer within"):
        await a_token(http, endpoint.url, "me", "secret").token()
    endpoint.go.set()
