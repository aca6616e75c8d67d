"""Calls of tools that go past all that the head of their request says, and all that makes them turn off that
way again."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import mcp_types as t
import pytest
from mcp import Client

import spindle
from mcp_server.conftest import OpenFixture
from servers.running import PATIENCE, OpenSources, StdioServers, until
from servers.serving import served
from servers.serving import text_of as text_of_result
from spindle import tool
from spindle.domain.serve import ServeConfig
from spindle.mcp_server.direct import DirectCalls
from spindle.serving.access import ServingAccess

SETTINGS: dict[str, Any] = {"tokens": {"ann": {"token": "a" * 20}, "bob": {"token": "b" * 20}}}


class RawClient:
    """A client that keeps one connection and one session, and sends the same head each time."""

    def __init__(self, url: str, token: str) -> None:
        self._parts = urlsplit(url)
        self.token = token
        self.session = ""

    async def __aenter__(self) -> RawClient:
        self.reader, self.writer = await asyncio.open_connection(self._parts.hostname, self._parts.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    def send(self, message: Any, method: str = "POST") -> None:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        head = (
            f"{method} /mcp HTTP/1.1\r\nHost: 127.0.0.1:{self._parts.port}\r\n"
            "Content-Type: application/json\r\n"
            f"Accept: application/json, text/event-stream\r\nAuthorization: Bearer {self.token}\r\n"
        )
        if self.session:
            head += f"Mcp-Session-Id: {self.session}\r\nMcp-Protocol-Version: 2025-11-25\r\n"
        self.writer.write(head.encode() + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    async def response(self) -> tuple[int, dict[str, str], bytes]:
        async with asyncio.timeout(PATIENCE):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {
                name.lower(): value.strip()
                for name, _, value in (line.partition(":") for line in head[1:] if line)
            }
            if "content-length" in headers:
                body = await self.reader.readexactly(int(headers["content-length"]))
            else:
                body = b""
                while size := int(await self.reader.readuntil(b"\r\n"), 16):
                    body += (await self.reader.readexactly(size + 2))[:-2]
                await self.reader.readexactly(2)
            return int(head[0].split()[1]), headers, body

    async def ask(self, message: Any, method: str = "POST") -> tuple[int, Any]:
        self.send(message, method)
        status, headers, body = await self.response()
        self.session = headers.get("mcp-session-id", self.session)
        if headers.get("content-type") == "text/event-stream":
            events = [line[6:] for line in body.splitlines() if line.startswith(b"data: ")]
            return status, [json.loads(event) for event in events]
        return status, json.loads(body) if body else None

    async def open(self, **capabilities: Any) -> None:
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities,
            "clientInfo": {"name": "raw", "version": "1"},
        }
        await self.ask({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        await self.ask({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, name: str, number: Any = 1, **arguments: Any) -> dict[str, Any]:
        params = {"name": name, "arguments": arguments}
        return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


@tool
def shout(text: str) -> str:
    """Shout."""
    return text.upper()


@tool
def fail() -> str:
    """Fail."""
    raise ValueError("no")


@pytest.fixture
def directly(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tools that were called this way."""
    seen: list[str] = []
    answer = DirectCalls._answer  # pyright: ignore[reportPrivateUsage]

    async def noted(self: DirectCalls, direct: Any, called: Any) -> None:
        seen.append(called.name)
        await answer(self, direct, called)

    monkeypatch.setattr(DirectCalls, "_answer", noted)
    return seen


@contextlib.asynccontextmanager
async def shouting(tmp_path: Path, **more: Any) -> AsyncGenerator[tuple[RawClient, ServingAccess, str]]:
    access = ServingAccess.of(ServeConfig.model_validate({"port": 0, **SETTINGS, **more}), {})
    async with (
        spindle.open(tmp_path, tools=[shout, fail]) as app,
        served(app, access=access) as url,
        RawClient(url, "a" * 20) as client,
    ):
        await client.open()
        # The first call finds out all that is to know of the tools.
        assert (await client.ask(client.call("shout", text="first")))[0] == 200
        yield client, access, url


def text_of(answer: Any) -> str:
    return answer["result"]["content"][0]["text"]


async def test_the_next_calls_of_a_session_are_direct_and_answered_as_before(
    tmp_path: Path, directly: list[str]
) -> None:
    async with shouting(tmp_path) as (client, _, _url):
        directly.clear()
        # On a machine that stands still for a moment, one or the other is not.
        for number, text in enumerate(("a", "a longer text", "ü") * 10):
            status, answer = await client.ask(client.call("shout", number + 7, text=text))
            assert (status, answer["id"], text_of(answer)) == (200, number + 7, text.upper())
        assert len(directly) >= 15
        assert set(directly) == {"shout"}


async def test_errors_are_those_of_the_ordinary_way(tmp_path: Path, directly: list[str]) -> None:
    async with shouting(tmp_path) as (client, _, _url):
        odd = {**client.call("shout", "text"), "more": 1}  # not plain, so not direct
        for name, arguments in (("fail", {}), ("shout", {"text": 1}), ("shout", {}), ("nobody", {"a": 1})):
            await client.ask({**odd, "params": {"name": name, "arguments": arguments}})
            answers = []
            for message in (
                client.call(name, 5, **arguments),
                {**odd, "params": {"name": name, "arguments": arguments}},
            ):
                _, answer = await client.ask(message)
                answer.pop("id")
                answers.append(answer)
            assert answers[0] == answers[1], name
        assert {"fail", "shout"} <= set(directly)


@pytest.mark.parametrize(
    "body",
    [
        b"{", b"[]", b"null", b'{"jsonrpc":"2.0"}',
        b'{"jsonrpc":"1.0","id":1,"method":"tools/call","params":{}}',
        b'{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"shout","arguments":{}}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7,"arguments":{}}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"shout","arguments":[]}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"name":"shout","arguments":{}}}',
    ],
)  # fmt: skip
async def test_what_is_no_plain_call_takes_the_ordinary_way(
    tmp_path: Path, directly: list[str], body: bytes
) -> None:
    async with shouting(tmp_path) as (client, _, _url):
        directly.clear()
        status, answer = await client.ask(body)
        assert status in (200, 400)
        assert "error" in answer or answer.get("result") == {}
        assert directly == []
        assert text_of((await client.ask(client.call("shout", text="on")))[1]) == "ON"


async def test_a_session_that_ended_is_not_gone_on_with(tmp_path: Path) -> None:
    async with shouting(tmp_path) as (client, _, url):
        async with RawClient(url, client.token) as other:
            other.session = client.session
            assert (await other.ask(b"", "DELETE"))[0] == 200
        assert (await client.ask(client.call("shout", text="gone")))[0] == 404


async def test_other_rules_are_in_force_at_the_next_call(tmp_path: Path) -> None:
    async with shouting(tmp_path) as (client, access, _url):
        access.adopt(access.config.model_copy(update={"excluded_tools": ("shout",)}))
        assert "Unknown tool" in (await client.ask(client.call("shout", text="x")))[1]["error"]["message"]
        access.adopt(ServeConfig.model_validate({"port": 0, "tokens": {"bob": SETTINGS["tokens"]["bob"]}}))
        assert (await client.ask(client.call("shout", text="x")))[0] == 401


async def test_one_connection_of_two_clients_serves_each_its_own(tmp_path: Path) -> None:
    async with shouting(tmp_path) as (client, _, _url):
        mine = client.session
        client.token, client.session = "b" * 20, mine
        assert (await client.ask(client.call("shout", text="x")))[0] == 404, (
            "another's session does not exist"
        )
        client.token = "a" * 20
        assert text_of((await client.ask(client.call("shout", text="x")))[1]) == "X"


async def test_a_body_over_the_limit_is_refused(tmp_path: Path) -> None:
    async with shouting(tmp_path, max_body_size=300) as (client, _, _url):
        assert (await client.ask(client.call("shout", text="x" * 400)))[0] == 413


async def test_too_many_requests_of_a_client_are_refused(tmp_path: Path) -> None:
    async with shouting(tmp_path, quotas={"requests": 1}) as (client, access, _url):
        assert access.begin("ann", {}, asyncio.current_task()), "as one that this task answers"
        assert (await client.ask(client.call("shout", text="x")))[0] == 429
        access.running.end("ann", asyncio.current_task())
        assert text_of((await client.ask(client.call("shout", text="x")))[1]) == "X"
        assert len(access.running) == 0


@contextlib.asynccontextmanager
async def waiting(
    open_sources: OpenSources, stdio_server: StdioServers, **capabilities: Any
) -> AsyncGenerator[tuple[RawClient, str]]:
    # Some calls never end: in the end, nobody need wait for them.
    settings = {"port": 0, "shutdown_timeout": 0.1, **SETTINGS}
    access = ServingAccess.of(ServeConfig.model_validate(settings), {})
    async with (
        open_sources({"s": stdio_server()}) as app,
        served(app, access=access) as url,
        RawClient(url, "a" * 20) as client,
    ):
        await client.open(**capabilities)
        yield client, url


async def test_a_cancelled_call_ends_with_an_error_and_its_server_is_told(
    open_sources: OpenSources, stdio_server: StdioServers, directly: list[str]
) -> None:
    async with waiting(open_sources, stdio_server) as (client, url):
        async with RawClient(url, client.token) as other:
            other.session = client.session
            for number in (5, 6):  # the first is not direct yet
                client.send(client.call("s_wait", number))
                await until(lambda number=number: stdio_server.calls("wait") == number - 4)
                message = {
                    "jsonrpc": "2.0",
                    "method": "notifications/cancelled",
                    "params": {"requestId": number},
                }
                assert (await other.ask(message))[0] == 202
                _, headers, body = await client.response()
                assert b"-32800" in body, headers
        assert directly == ["s.wait"]
        told = "notifications/cancelled"
        await until(lambda: sum(item.get("method") == told for item in stdio_server.recorded()) == 2)


async def test_a_client_that_leaves_does_not_end_its_call(
    open_sources: OpenSources, stdio_server: StdioServers, directly: list[str]
) -> None:
    async with waiting(open_sources, stdio_server) as (client, url):
        for number in (1, 2):
            async with RawClient(url, client.token) as other:
                other.session = client.session
                await other.ask({"jsonrpc": "2.0", "method": "notifications/initialized"})
                other.send(other.call("s_wait", number + 10))
                await until(lambda number=number: stdio_server.calls("wait") == number)
        assert directly == ["s.wait"]
        # The session goes on, and so do its calls: only an answer or their client's word ends them.
        assert not any(item.get("method") == "notifications/cancelled" for item in stdio_server.recorded())


@pytest.mark.parametrize("name", ["test_elicitation", "test_sampling"])
async def test_a_client_is_asked_in_a_direct_call(
    open_fixture: OpenFixture, directly: list[str], name: str
) -> None:
    async def fill_in(context: Any, params: Any) -> t.ElicitResult:
        return t.ElicitResult(action="accept", content={"username": "ann", "email": "ann@example.com"})

    async def sample(context: Any, params: Any) -> t.CreateMessageResult:
        content = t.TextContent(text="42")
        return t.CreateMessageResult(role="assistant", content=content, model="test", stop_reason="endTurn")

    arguments = {"test_elicitation": {"message": "Who?"}, "test_sampling": {"prompt": "6 x 7?"}}[name]
    async with (
        open_fixture(protocol="handshake") as app,
        served(app) as url,
        Client(url, mode="legacy", elicitation_callback=fill_in, sampling_callback=sample) as client,
    ):
        answers = [await client.call_tool(name, arguments) for _ in range(3)]
    assert directly, "at least the last of them"
    assert len({text_of_result(answer) for answer in answers}) == 1
    assert not answers[-1].is_error
