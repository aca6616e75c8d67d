"""Tokens of a client's own, from a real token endpoint."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from urllib.parse import parse_qs

import httpx2
import pytest

from spindle.auth.client_credentials import MAX_ANSWER, ClientCredentials
from spindle.errors import AuthError, ConfigurationError, ConnectionFailedError, ServerError, SpindleError

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
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient() as made:
        yield made


class Clock:
    time = 0.0

    def __call__(self) -> float:
        return self.time


async def test_a_token_is_used_until_shortly_before_its_end(
    endpoint: Endpoint, client: httpx2.AsyncClient
) -> None:
    clock = Clock()
    tokens = ClientCredentials(endpoint.url, "me", "secret", "read write", client=client, now=clock)
    found = []
    for clock.time in (0, 89, 90.1, 150, 181):
        found.append(await tokens.token())
    assert found == ["t0", "t0", "t1", "t1", "t2"]
    assert endpoint.asked[0][1] == {
        "grant_type": ["client_credentials"], "client_id": ["me"], "client_secret": ["secret"],
        "scope": ["read write"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("lifetime", "end"), [("200", 180.0), (1000, 970.0), (None, None), ("soon", None), (-1, None)]
)
async def test_the_lifetime_may_be_text_or_missing(
    lifetime: object, end: float | None, endpoint: Endpoint, client: httpx2.AsyncClient
) -> None:
    endpoint.answers = [
        (200, json.dumps({"access_token": f"t{n}", "expires_in": lifetime})) for n in range(3)
    ]
    clock = Clock()
    tokens = ClientCredentials(endpoint.url, "me", "secret", client=client, now=clock)
    await tokens.token()
    clock.time = 1e9 if end is None else end - 0.1
    assert await tokens.token() == "t0"
    if end is not None:
        clock.time = end + 0.1
        assert await tokens.token() == "t1"


async def test_parallel_callers_share_one_request(endpoint: Endpoint, client: httpx2.AsyncClient) -> None:
    endpoint.go.clear()
    tokens = ClientCredentials(endpoint.url, "me", "secret", client=client)
    callers = [asyncio.create_task(tokens.token()) for _ in range(5)]
    await endpoint.arrived.wait()
    # Who asked first gives up; the others do not suffer from that.
    callers[0].cancel()
    endpoint.go.set()
    found = await asyncio.gather(*callers, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert len(set(found[1:])) == 1
    assert len(endpoint.asked) <= 2


async def test_only_the_token_in_use_is_dropped(endpoint: Endpoint, client: httpx2.AsyncClient) -> None:
    tokens = ClientCredentials(endpoint.url, "me", "secret", client=client)
    first = await tokens.token()
    tokens.refused(first)
    second = await tokens.token()
    tokens.refused(first)
    assert [first, second, await tokens.token()] == ["t0", "t1", "t1"]


async def test_a_server_that_wants_the_client_in_a_header_gets_it_there(
    endpoint: Endpoint, client: httpx2.AsyncClient
) -> None:
    endpoint.answers = [
        (401, "{}"),
        (200, json.dumps(GOOD)),
        (200, json.dumps({**GOOD, "access_token": "u"})),
    ]
    tokens = ClientCredentials(endpoint.url, "m:e", "sé", client=client)
    assert await tokens.token() == "t"
    tokens.refused("t")
    assert await tokens.token() == "u"
    by_header = [bool(headers["authorization"]) for headers, _ in endpoint.asked]
    assert by_header == [False, True, True]
    assert endpoint.asked[1][0]["authorization"] == "Basic bSUzQWU6cyVDMyVBOQ=="
    assert "client_secret" not in endpoint.asked[1][1]


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        ((400, '{"error": "bad_scope", "error_description": "no such"}'), AuthError, "bad_scope no such"),
        ((500, "oops"), ServerError, "HTTP status 500"),
        ((200, "{}"), ServerError, "without an access token"),
        ((200, "not json"), ServerError, "without an access token"),
        ((200, "[]"), ServerError, "without an access token"),
        ((200, '{"access_token": "a\\nb"}'), ServerError, "without an access token"),
        ((307, ""), ServerError, "redirects are not followed"),
        ((200, " " * (MAX_ANSWER + 1)), ServerError, "more than"),
    ],
)  # fmt: skip
async def test_what_goes_wrong_is_told_without_the_secret(
    answer: tuple[int, str],
    kind: type[SpindleError],
    said: str,
    endpoint: Endpoint,
    client: httpx2.AsyncClient,
) -> None:
    endpoint.answers = [answer]
    tokens = ClientCredentials(f"{endpoint.url}?key=hidden", "me", "the-secret", client=client)
    with pytest.raises(kind, match=said) as caught:
        await tokens.token()
    assert not caught.value.sent
    assert "the-secret" not in repr(caught.value.to_dict())
    assert "hidden" not in caught.value.message


async def test_an_endpoint_that_is_not_there_or_not_allowed_is_an_error(client: httpx2.AsyncClient) -> None:
    with pytest.raises(ConnectionFailedError, match="cannot get a token"):
        await ClientCredentials("http://127.0.0.1:1/t", "me", "s", client=client).token()

    async def refuses(url: str) -> None:
        raise ConfigurationError(f"not to {url}")

    with pytest.raises(ConfigurationError, match="not to"):
        await ClientCredentials("http://127.0.0.1:1/t", "me", "s", client=client, check=refuses).token()


async def test_an_endpoint_that_does_not_answer_is_not_waited_for(
    endpoint: Endpoint, client: httpx2.AsyncClient
) -> None:
    endpoint.go.clear()
    tokens = ClientCredentials(endpoint.url, "me", "secret", client=client, timeout=0.05)
    with pytest.raises(ConnectionFailedError, match="TimeoutError"):
        await tokens.token()
    endpoint.go.set()
