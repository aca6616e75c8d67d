"""Requests over Streamable HTTP, one by one, against a server that answers as it is told."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from spindle.domain.identity import NO_CREDENTIAL
from spindle.http.failures import LostError
from spindle.mcp_protocol.errors import McpError
from spindle.sources.mcp import http_dispatcher
from spindle.sources.mcp.config import McpConfig
from spindle.sources.mcp.exchange import CallExchange, current_exchange
from spindle.sources.mcp.http_dispatcher import HttpDispatcher
from spindle.sources.mcp.session_http import SessionHttp
from spindle.sources.mcp.streamable import StreamableLink

Responder = Callable[[str, dict[str, str], Any], bytes | None]
"""Takes a request (verb, headers, message) and returns the bytes of its answer; None: the connection ends."""


class Server:
    def __init__(self, respond: Responder) -> None:
        self.respond = respond
        self.connections = 0
        self.seen: list[tuple[str, dict[str, str], Any]] = []
        self.url = ""
        self.hangs_up = False
        """True if it ends a connection after each answer, though it does not say so."""
        self.ended = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                lines = head.rstrip().split("\r\n")
                headers = {
                    key.lower(): value for key, _, value in (line.partition(": ") for line in lines[1:])
                }
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                request = (lines[0].split()[0], headers, json.loads(body) if body else None)
                self.seen.append(request)
                said = self.respond(*request)
                if said is None:
                    break
                writer.write(said)
                await writer.drain()
                if self.hangs_up or b"connection: close" in said:
                    break
        self.ended += 1
        writer.close()


def whole(message: Any) -> bytes:
    body = json.dumps(message).encode()
    return (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    )


def events(*texts: str, is_complete: bool = True) -> bytes:
    data = "".join(texts).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + b"%x\r\n%s\r\n" % (len(data), data) + (b"0\r\n\r\n" if is_complete else b"")


def result(message: Any, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": message["id"], "result": {"ok": True}, **more}


@contextlib.asynccontextmanager
async def connected(respond: Responder) -> AsyncIterator[tuple[HttpDispatcher, Server]]:
    server = Server(respond)
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening:
        server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/mcp"
        config = McpConfig(url=server.url)
        async with (
            contextlib.aclosing(SessionHttp("s", config, NO_CREDENTIAL)) as http,
            contextlib.aclosing(HttpDispatcher(StreamableLink(http, server.url), 100_000)) as messages,
        ):
            yield messages, server


@pytest.fixture
def note() -> CallExchange:
    made = CallExchange()
    current_exchange.set(made)
    return made


async def test_answers_as_events_leave_the_connection_to_the_next() -> None:
    def respond(_verb: str, _headers: dict[str, str], message: Any) -> bytes:
        return events(f"data: {json.dumps(result(message))}\n\n")

    async with connected(respond) as (messages, server):
        for _ in range(3):
            assert await messages.send_raw_request("ping", None) == {"ok": True}
            await asyncio.gather(*messages._endings)
        assert server.connections == 1


async def test_a_stream_that_goes_on_after_its_answer_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_dispatcher, "LAST_BYTES", 0.01)

    def respond(_verb: str, _headers: dict[str, str], message: Any) -> bytes:
        return events(f"data: {json.dumps(result(message))}\n\n", is_complete=False)

    async with connected(respond) as (messages, server):
        assert await messages.send_raw_request("ping", None) == {"ok": True}
        await asyncio.gather(*messages._endings)
        assert await messages.send_raw_request("ping", None) == {"ok": True}
        assert server.connections == 2


@pytest.mark.parametrize("other", [999, "other", True, {}])
@pytest.mark.parametrize("write", [whole, lambda message: events(f"data: {json.dumps(message)}\n\n")])
async def test_an_answer_to_another_request_is_refused_at_once(
    other: Any, write: Callable[[Any], bytes]
) -> None:
    async with connected(lambda _verb, _headers, message: write(result(message, id=other))) as (messages, _):
        with pytest.raises(McpError, match="to another request"):
            await messages.send_raw_request("ping", None)


async def test_a_stream_that_breaks_off_goes_on_from_its_last_event(note: CallExchange) -> None:
    asked: list[Any] = []

    def respond(verb: str, headers: dict[str, str], message: Any) -> bytes:
        if verb == "POST":
            asked.append(message)
            return events("id: e1\nretry: 0\ndata:\n\n")
        if headers["last-event-id"] == "e1":
            return events("id: e2\ndata:\n\n")
        return events(f"data: {json.dumps(result(asked[0]))}\n\n")

    async with connected(respond) as (messages, server):
        assert await messages.send_raw_request("tools/call", {}) == {"ok": True}
        places = [headers.get("last-event-id") for _, headers, _ in server.seen]
        assert places == [None, "e1", "e2"]
        assert note.failure is None
        assert not note.ended


async def test_a_stream_that_cannot_go_on_has_ended(note: CallExchange) -> None:
    def respond(verb: str, _headers: dict[str, str], _message: Any) -> bytes:
        if verb == "GET":
            return b"HTTP/1.1 404 X\r\ncontent-length: 0\r\n\r\n"
        return events("id: e1\nretry: 0\ndata:\n\n")

    async with connected(respond) as (messages, server):
        with pytest.raises(McpError, match="ended without an answer"):
            await messages.send_raw_request("tools/call", {})
        assert [verb for verb, _, _ in server.seen] == ["POST", "GET", "GET"]
        assert note.ended


async def test_nothing_is_resumed_in_the_modern_era() -> None:
    async with connected(lambda *_: events("id: e1\nretry: 0\ndata:\n\n")) as (messages, server):
        with pytest.raises(McpError, match="ended without an answer"):
            await messages.send_raw_request(
                "tools/call",
                {},
                {"headers": {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call"}},
            )
        ((_, headers, _),) = server.seen
        assert (headers["mcp-protocol-version"], headers["mcp-method"]) == ("2026-07-28", "tools/call")


async def test_the_session_is_shown_with_each_request_and_ended() -> None:
    def respond(verb: str, _headers: dict[str, str], message: Any) -> bytes:
        if verb != "POST":
            return b"HTTP/1.1 405 X\r\ncontent-length: 0\r\n\r\n"
        if "id" not in message:
            return b"HTTP/1.1 202 X\r\ncontent-length: 0\r\n\r\n"
        return whole(result(message)).replace(b"content-type", b"mcp-session-id: s1\r\ncontent-type")

    async with connected(respond) as (messages, server):
        await messages.send_raw_request("initialize", {})
        stamped: Any = {"headers": {"mcp-protocol-version": "2025-11-25"}}
        await messages.notify("notifications/initialized", None, stamped)
        assert messages._listening is not None
        await messages._listening
        await messages.send_raw_request("ping", None)
    shown = [
        (verb, headers.get("mcp-session-id"), headers.get("mcp-protocol-version"))
        for verb, headers, _ in server.seen
    ]
    assert shown[0] == ("POST", None, None)
    assert sorted(verb for verb, *_ in shown) == ["DELETE", "GET", "POST", "POST", "POST"]
    assert all(rest == ("s1", "2025-11-25") for _, *rest_ in shown[1:] if (rest := tuple(rest_)))


async def test_a_time_limit_ends_a_request_and_tells_the_server() -> None:
    told = asyncio.Event()

    def respond(_verb: str, _headers: dict[str, str], message: Any) -> bytes:
        if message["method"] == "notifications/cancelled":
            told.set()
            return b"HTTP/1.1 202 X\r\ncontent-length: 0\r\n\r\n"
        return events(": wait\n\n", is_complete=False)

    async with connected(respond) as (messages, server):
        with pytest.raises(McpError, match="timed out"):
            await messages.send_raw_request("tools/call", {}, {"timeout": 0.01})
        await told.wait()
        assert server.seen[-1][2]["params"]["requestId"] == 1


async def test_a_post_that_cannot_arrive_was_never_sent(note: CallExchange) -> None:
    config = McpConfig(url="http://127.0.0.1:1/mcp")
    async with (
        contextlib.aclosing(SessionHttp("s", config, NO_CREDENTIAL)) as http,
        contextlib.aclosing(HttpDispatcher(StreamableLink(http, "http://127.0.0.1:1/mcp"), 1000)) as messages,
    ):
        with pytest.raises(McpError):
            await messages.send_raw_request("tools/call", {})
    assert note.never_sent


# --- what goes wrong with connections


async def test_an_answer_that_breaks_off_is_not_asked_for_again(note: CallExchange) -> None:
    def respond(_verb: str, _headers: dict[str, str], message: Any) -> bytes:
        return whole(result(message))[:-5].replace(b"content-type", b"connection: close\r\ncontent-type")

    async with connected(respond) as (messages, server):
        with pytest.raises(McpError, match="broke off"):
            await messages.send_raw_request("tools/call", {})
        assert len(server.seen) == 1
    assert isinstance(note.failure, LostError)
    assert not note.never_sent


async def test_a_server_that_ends_without_a_word_may_have_done_it(note: CallExchange) -> None:
    async with connected(lambda *_: None) as (messages, server):
        with pytest.raises(McpError, match="closed the connection"):
            await messages.send_raw_request("tools/call", {})
        assert len(server.seen) == 1
    assert note.failure is not None
    assert not note.never_sent


@pytest.mark.parametrize("says_so", [True, False])
async def test_a_connection_that_ends_after_each_answer_costs_no_call(says_so: bool) -> None:
    """Whether the server announces it or not, each request arrives, and once."""

    def respond(_verb: str, _headers: dict[str, str], message: Any) -> bytes:
        said = whole(result(message))
        return said.replace(b"content-type", b"connection: close\r\ncontent-type") if says_so else said

    async with connected(respond) as (messages, server):
        server.hangs_up = True
        for number in range(1, 6):
            assert await messages.send_raw_request("tools/call", {"n": number}) == {"ok": True}
            while server.ended < number:
                await asyncio.sleep(0)
        assert [message["params"]["n"] for _, _, message in server.seen] == [1, 2, 3, 4, 5]
        assert server.connections == 5


async def test_a_slow_answer_is_ended_by_the_time_limit_of_its_call() -> None:
    """Bytes that go on coming do not make it wait longer."""
    gone = asyncio.Event()

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9999999\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while not writer.is_closing():
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.001)
        gone.set()
        writer.close()

    async with await asyncio.start_server(drip, "127.0.0.1", 0) as listening:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/mcp"
        async with (
            contextlib.aclosing(SessionHttp("s", McpConfig(url=url), NO_CREDENTIAL)) as http,
            contextlib.aclosing(HttpDispatcher(StreamableLink(http, url), 10_000_000)) as messages,
        ):
            with pytest.raises(McpError, match="timed out"):
                await messages.send_raw_request(
                    "tools/call", {}, {"timeout": 0.05, "cancel_on_abandon": False}
                )
            await gone.wait()


@pytest.mark.parametrize("status", [401, 403, 404, 429, 503])
async def test_a_refusal_is_noted_and_leaves_the_connection(status: int, note: CallExchange) -> None:
    def respond(_verb: str, _headers: dict[str, str], _message: Any) -> bytes:
        more = b'www-authenticate: Bearer error="invalid_token"\r\nretry-after: 7\r\n'
        return b"HTTP/1.1 %d X\r\n%scontent-length: 2\r\n\r\nno" % (status, more)

    async with connected(respond) as (messages, server):
        messages._http.session_id = "known"
        for _ in range(2):
            with pytest.raises(McpError, match="refused the request"):
                await messages.send_raw_request("tools/call", {})
        assert server.connections == 1
        messages._http.session_id = None
    assert (note.status, note.retry_after) == (status, 7)
    assert note.challenge == 'Bearer error="invalid_token"'
    assert not note.had_json_rpc_error


async def test_a_redirect_within_the_server_is_followed_with_its_message() -> None:
    moved = False

    def respond(_verb: str, _headers: dict[str, str], message: Any) -> bytes:
        nonlocal moved
        if not moved:
            moved = True
            return b"HTTP/1.1 307 X\r\nlocation: /other\r\ncontent-length: 0\r\n\r\n"
        return whole(result(message))

    async with connected(respond) as (messages, server):
        assert await messages.send_raw_request("tools/call", {"a": 1}) == {"ok": True}
        assert [message["params"] for _, _, message in server.seen] == [{"a": 1}, {"a": 1}]
        assert server.connections == 1


async def test_closing_leaves_no_error_behind_that_nobody_hears(caplog: pytest.LogCaptureFixture) -> None:
    def respond(_verb: str, _headers: dict[str, str], _message: Any) -> bytes:
        return events(": nothing yet\n\n", is_complete=False)

    async with connected(respond) as (messages, server):
        waiting = asyncio.create_task(messages.send_raw_request("ping", None))
        while not server.seen:
            await asyncio.sleep(0)
        messages.close()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    gc.collect()
    assert "never retrieved" not in caplog.text
