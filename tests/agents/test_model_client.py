"""Models of a name, which are asked by Spindle's own HTTP client."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import httpx2
import pytest
from openai import AsyncOpenAI

from servers.echo_server import Answer, EchoServer
from servers.names import certificate, echo, names, secure
from spindle import Agent, AgentResult
from spindle.agents import model_client
from spindle.agents.model_client import ModelClient
from spindle.agents.models import TAKE_CLIENTS
from spindle.errors import ConnectionFailedError, SpindleError
from spindle.http.client import HttpClient
from spindle.http.request import Prepared
from spindle.testing import Dropped, Failure, ModelRequest, ModelServer, ToolCall, Turn, workspace

__all__ = ["certificate", "echo", "names", "secure"]

MODELS = ["openai-chat:gpt-scripted", "openai-responses:gpt-scripted", "anthropic:claude-scripted"]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(autouse=True)
def there(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where providers are, and who asks, as their libraries find it."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)


@pytest.fixture
async def asking() -> AsyncIterator[ModelClient]:
    async with model_client.model_client() as found:
        yield found


@contextlib.asynccontextmanager
async def listening(serve: Serve) -> AsyncIterator[str]:
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


# --- agents


@pytest.mark.parametrize("model", MODELS)
async def test_each_api_is_asked_by_our_client(
    model: str, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[str]()
    real = HttpClient.send

    async def send(self: HttpClient, request: Prepared, **options: object) -> object:
        asked.append(request.url)
        return await real(self, request, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(HttpClient, "send", send)
    server.feed(Turn(calls=[ToolCall("add", {"a": 1, "b": 2})]), "It is 3.")
    async with workspace([add]) as app:
        done = await Agent(app, model).run("add them")
    assert isinstance(done, AgentResult)
    assert (done.output, done.usage.requests) == ("It is 3.", 2)
    assert len(asked) == 2
    assert all(url.startswith(server.url) for url in asked)


@pytest.mark.parametrize("provider", sorted(TAKE_CLIENTS))
async def test_each_provider_takes_our_client(
    provider: str, echo: EchoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = HttpClient.send

    async def send(self: HttpClient, request: Prepared, **options: object) -> object:
        return await real(self, replace(request, url=echo.url), **options)  # type: ignore[arg-type]

    monkeypatch.setattr(HttpClient, "send", send)
    for name in ("DEEPSEEK", "OPENROUTER", "OLLAMA"):
        monkeypatch.setenv(f"{name}_API_KEY", "any")
    monkeypatch.setenv("OLLAMA_BASE_URL", "http://models.test/v1")
    echo.answers["/"] = Answer(status=400)
    async with workspace() as app:
        with pytest.raises(SpindleError, match="400"):
            await Agent(app, f"{provider}:some/model").run("hello")
    assert json.loads(echo.last.body)["model"] == "some/model"


@pytest.mark.parametrize("model", MODELS)
async def test_an_answer_is_streamed_as_it_comes(model: str, server: ModelServer) -> None:
    server.feed("one two three")
    async with workspace() as app:
        events = [event async for event in Agent(app, model).stream("count")]
    pieces = [event.text or "" for event in events if event.kind == "text"]
    assert len(pieces) > 1
    assert "".join(pieces) == "one two three"


@pytest.mark.parametrize("model", MODELS)
async def test_a_connection_that_breaks_is_an_error_of_the_connection(
    model: str, server: ModelServer
) -> None:
    server.feed(*[Dropped("one two")] * 9)
    async with workspace() as app:
        with pytest.raises(ConnectionFailedError):
            _ = [event async for event in Agent(app, model).stream("count")]


async def test_the_error_says_what_went_wrong_on_the_way(
    echo: EchoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Libraries say "Connection error." of all that goes wrong."""
    monkeypatch.setenv("OPENAI_BASE_URL", echo.url)
    monkeypatch.setattr(model_client, "MAX_ANSWER", 1)
    monkeypatch.setattr(AsyncOpenAI, "_calculate_retry_timeout", lambda *_, **__: 0.0)
    async with workspace() as app:
        with pytest.raises(ConnectionFailedError, match="'m' cannot be reached: answered with more than 1 b"):
            await Agent(app, "openai-chat:m").run("hello")
        monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
        with pytest.raises(ConnectionFailedError, match="'m' cannot be reached: Connection refused"):
            await Agent(app, "openai-chat:m").run("hello")


async def test_a_provider_that_is_down_is_asked_again(server: ModelServer) -> None:
    server.feed(Failure(503, retry_after=0.01), "Here again.")
    async with workspace() as app:
        done = await Agent(app, MODELS[0]).run("hello")
    assert isinstance(done, AgentResult)
    assert done.output == "Here again."


async def test_a_key_that_is_changed_is_never_mixed_with_the_one_before(
    echo: EchoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Models of both keys are asked over the same client, and each shows its own."""
    monkeypatch.setenv("OPENAI_BASE_URL", echo.url)
    async with workspace() as app:
        for key in ("first", "second"):
            monkeypatch.setenv("OPENAI_API_KEY", key)
            with pytest.raises(SpindleError, match="model"):
                await Agent(app, MODELS[0]).run("hello")  # the answer is none: nobody speaks this API here
            assert {sent.own_headers["authorization"] for sent in echo.requests} == {f"Bearer {key}"}
            echo.requests.clear()


async def test_the_workspace_closes_its_connections() -> None:
    left = asyncio.Event()

    def answered(request: ModelRequest) -> str:
        return "Hello."

    async with ModelServer(reply=answered) as server, _through(server, left) as url:
        async with workspace() as app:
            with pytest.MonkeyPatch.context() as patched:
                patched.setenv("OPENAI_BASE_URL", f"{url}/v1")
                await Agent(app, MODELS[0]).run("hello")
            assert not left.is_set()
        await left.wait()


@contextlib.asynccontextmanager
async def _through(server: ModelServer, left: asyncio.Event) -> AsyncIterator[str]:
    """A way to the server on which it is seen when the client leaves."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = server.url.removeprefix("http://").partition(":")
        back, forth = await asyncio.open_connection(host, int(port))

        async def pass_on(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                to.write(data)

        answers = asyncio.create_task(pass_on(back, writer))
        await pass_on(reader, forth)
        left.set()
        answers.cancel()
        forth.close()
        writer.close()

    async with listening(serve) as url:
        yield url


# --- the client itself


async def test_a_request_and_its_answer_arrive_as_they_are(asking: ModelClient, echo: EchoServer) -> None:
    echo.answers["/v1/x"] = Answer(b'{"a": 1}', 201, {"x-request-id": "abc"})
    answer = await asking.post(f"{echo.url}/v1/x?beta=true", json={"q": "é"}, headers={"X-Key": "k"})
    assert (answer.status_code, answer.json(), answer.headers["x-request-id"]) == (201, {"a": 1}, "abc")
    sent = echo.last
    assert sent.target == "/v1/x?beta=true"
    assert json.loads(sent.body) == {"q": "é"}
    assert sent.own_headers["x-key"] == "k"
    assert [name for name, _ in sent.headers].count("host") == 1
    assert [name for name, _ in sent.headers].count("content-length") == 1


async def test_what_is_packed_is_unpacked_once(asking: ModelClient, echo: EchoServer) -> None:
    echo.answers["/"] = Answer(gzip.compress(b'{"a": 1}'), headers={"content-encoding": "gzip"})
    assert (await asking.get(echo.url)).json() == {"a": 1}


async def test_cookies_of_a_provider_are_for_nobody(asking: ModelClient, echo: EchoServer) -> None:
    """Whoever has a model asked shares the client with all others."""
    echo.answers["/"] = Answer(headers={"set-cookie": "user=ann"})
    answer = await asking.get(echo.url)
    assert "set-cookie" not in answer.headers
    await asking.get(echo.url)
    assert "cookie" not in echo.last.own_headers


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc"])
async def test_silence_is_a_timeout(said: bytes, asking: ModelClient) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", said):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
        await reader.read()
        writer.close()

    async with listening(serve) as url:
        await asking.get(url)  # so that it is connected, which has the same time
        with pytest.raises(httpx2.ReadTimeout):
            await asking.get(url, timeout=0.02)


async def test_where_nobody_listens_nothing_was_sent(asking: ModelClient) -> None:
    async with listening(lambda *_: asyncio.sleep(0)) as url:
        pass
    with pytest.raises(httpx2.ConnectError):
        await asking.get(url)


@pytest.mark.parametrize(
    "said", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc", b"SSH-2.0-OpenSSH\r\n\r\n"]
)
async def test_an_answer_that_breaks_off_is_an_error_of_reading(said: bytes, asking: ModelClient) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        writer.close()

    async with listening(serve) as url:
        with pytest.raises(httpx2.ReadError):
            await asking.get(url)


async def test_an_answer_that_is_packed_wrongly_is_refused(asking: ModelClient, echo: EchoServer) -> None:
    echo.answers["/"] = Answer(b"not packed", headers={"content-encoding": "gzip"})
    with pytest.raises(httpx2.RemoteProtocolError, match="cannot be unpacked"):
        await asking.get(echo.url)


async def test_an_answer_is_bounded(
    asking: ModelClient, echo: EchoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_client, "MAX_ANSWER", 1000)
    echo.answers["/"] = Answer(gzip.compress(b"x" * 1001), headers={"content-encoding": "gzip"})
    with pytest.raises(httpx2.RemoteProtocolError, match="more than 1000 bytes"):
        await asking.get(echo.url)


async def test_whoever_leaves_a_stream_leaves_its_connection_too(asking: ModelClient) -> None:
    gone = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc")
        await reader.read()
        gone.set()
        writer.close()

    async with listening(serve) as url:
        async with asking.stream("GET", url) as answer:
            async for piece in answer.aiter_bytes():
                assert piece == b"abc"
                break
        await gone.wait()


async def test_a_proxy_that_the_environment_names_is_used(
    echo: EchoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", echo.url.replace("//", "//me:pw@"))
    monkeypatch.setenv("http_proxy", echo.url.replace("//", "//me:pw@"))
    async with model_client.model_client() as asking:
        await asking.get("http://models.test/v1/models")
    assert echo.last.target == "http://models.test/v1/models"
    assert echo.last.own_headers["proxy-authorization"] == "Basic bWU6cHc="


async def test_a_provider_proves_who_it_is(
    secure: EchoServer,
    asking: ModelClient,
    names: dict[str, list[str]],
    certificate: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    names["good.test"] = names["evil.test"] = ["127.0.0.2"]
    assert (await asking.get(secure.url)).status_code == 200
    with pytest.raises(httpx2.ConnectError, match="cannot be trusted"):
        await asking.get(secure.url.replace("good.test", "evil.test"))
