"""Requests over Streamable HTTP, one by one, against a server that answers as it is told."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import spindle
from servers.running import until
from spindle.domain.identity import NO_CREDENTIAL, Credential
from spindle.http.failures import LostError
from spindle.mcp_protocol.errors import McpError
from spindle.settings import Settings
from spindle.sources.mcp import endings, open_http
from spindle.sources.mcp.config import McpConfig
from spindle.sources.mcp.exchange import CallExchange, current_exchange
from spindle.sources.mcp.http_dispatcher import HttpDispatcher
from spindle.sources.mcp.session_http import SessionHttp
from spindle.sources.mcp.streamable import StreamableLink

Said = bytes | tuple[bytes | asyncio.Event, ...] | None
"""The bytes of an answer, or pieces of it, with what it waits for between them; None: the connection ends."""
Responder = Callable[[str, dict[str, str], Any], Said]
"""Takes a request (verb, headers, message) and returns the answer."""


WARM = "warm"
"""The method of a request that every server answers, after which there is a connection to send on at once."""


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
                if request[2] is not None and request[2].get("method") == WARM:
                    said = whole(result(request[2]))
                else:
                    self.seen.append(request)
                    said = self.respond(*request)
                if said is None:
                    break
                for piece in (said,) if isinstance(said, bytes) else said:
                    if isinstance(piece, asyncio.Event):
                        await piece.wait()
                    else:
                        writer.write(piece)
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


Send = Callable[..., Awaitable[dict[str, Any]]]
"""Sends a call of a tool, and returns its result."""


async def requested(messages: HttpDispatcher, **params: Any) -> dict[str, Any]:
    return await messages.send_raw_request("tools/call", params)


async def begun(messages: HttpDispatcher, **params: Any) -> dict[str, Any]:
    await warmed(messages)
    coming = messages.begin_call(params, {}, current_exchange.get() or CallExchange())
    assert coming is not None
    return await coming


async def warmed(messages: HttpDispatcher) -> None:
    context = contextvars.copy_context()
    context.run(current_exchange.set, None)
    await asyncio.create_task(messages.send_raw_request(WARM, None), context=context)


either_way = pytest.mark.parametrize("send", [requested, begun])
"""Calls are sent at once where there is a connection, and come to the same."""


@either_way
async def test_answers_as_events_leave_the_connection_to_the_next(send: Send) -> None:
    def respond(_verb: str, _headers: dict[str, str], message: Any) -> bytes:
        return events(f"data: {json.dumps(result(message))}\n\n")

    async with connected(respond) as (messages, server):
        for _ in range(3):
            assert await send(messages) == {"ok": True}
        assert server.connections == 1


@either_way
async def test_a_stream_that_ends_after_its_answer_leaves_the_connection(send: Send) -> None:
    ended = asyncio.Event()

    def respond(_verb: str, _headers: dict[str, str], message: Any) -> Said:
        return events(f"data: {json.dumps(result(message))}\n\n", is_complete=False), ended, b"0\r\n\r\n"

    async with connected(respond) as (messages, server):
        assert await send(messages) == {"ok": True}
        ended.set()
        await until(lambda: any(messages._http._http.client._connections._resting.values()))
        await warmed(messages)
        assert server.connections == 1


@either_way
async def test_a_stream_that_goes_on_after_its_answer_is_left(
    send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endings, "LAST_BYTES", 0.01)

    def respond(_verb: str, _headers: dict[str, str], message: Any) -> bytes:
        return events(f"data: {json.dumps(result(message))}\n\n", is_complete=False)

    async with connected(respond) as (messages, server):
        assert await send(messages) == {"ok": True}
        await until(lambda: server.ended == 1)
        assert await send(messages) == {"ok": True}
        assert server.connections == 2


async def test_streams_that_go_on_after_their_answers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endings, "MAX_ENDINGS", 2)

    def respond(_verb: str, _headers: dict[str, str], message: Any) -> bytes:
        return events(f"data: {json.dumps(result(message))}\n\n", is_complete=False)

    async with connected(respond) as (messages, server):
        for _ in range(4):
            assert await requested(messages) == {"ok": True}
        await until(lambda: server.ended == 2)
        assert server.connections == 4


@pytest.mark.parametrize("other", [999, "other", True, {}])
@pytest.mark.parametrize("write", [whole, lambda message: events(f"data: {json.dumps(message)}\n\n")])
@either_way
async def test_an_answer_to_another_request_is_refused_at_once(
    send: Send, other: Any, write: Callable[[Any], bytes]
) -> None:
    async with connected(lambda _verb, _headers, message: write(result(message, id=other))) as (messages, _):
        with pytest.raises(McpError, match="to another request"):
            await send(messages)


@either_way
async def test_a_stream_that_breaks_off_goes_on_from_its_last_event(send: Send, note: CallExchange) -> None:
    asked: list[Any] = []

    def respond(verb: str, headers: dict[str, str], message: Any) -> bytes:
        if verb == "POST":
            asked.append(message)
            return events("id: e1\nretry: 0\ndata:\n\n")
        if headers["last-event-id"] == "e1":
            return events("id: e2\ndata:\n\n")
        return events(f"data: {json.dumps(result(asked[0]))}\n\n")

    async with connected(respond) as (messages, server):
        assert await send(messages) == {"ok": True}
        places = [headers.get("last-event-id") for _, headers, _ in server.seen]
        assert places == [None, "e1", "e2"]
        assert note.failure is None
        assert not note.ended


@either_way
async def test_a_stream_that_cannot_go_on_has_ended(send: Send, note: CallExchange) -> None:
    def respond(verb: str, _headers: dict[str, str], _message: Any) -> bytes:
        if verb == "GET":
            return b"HTTP/1.1 404 X\r\ncontent-length: 0\r\n\r\n"
        return events("id: e1\nretry: 0\ndata:\n\n")

    async with connected(respond) as (messages, server):
        with pytest.raises(McpError, match="ended without an answer"):
            await send(messages)
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


@either_way
async def test_an_answer_that_breaks_off_is_not_asked_for_again(send: Send, note: CallExchange) -> None:
    def respond(_verb: str, _headers: dict[str, str], message: Any) -> bytes:
        return whole(result(message))[:-5].replace(b"content-type", b"connection: close\r\ncontent-type")

    async with connected(respond) as (messages, server):
        with pytest.raises(McpError, match="broke off"):
            await send(messages)
        assert len(server.seen) == 1
    assert isinstance(note.failure, LostError)
    assert not note.never_sent


@either_way
async def test_a_server_that_ends_without_a_word_may_have_done_it(send: Send, note: CallExchange) -> None:
    async with connected(lambda *_: None) as (messages, server):
        with pytest.raises(McpError, match="closed the connection"):
            await send(messages)
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
@either_way
async def test_a_refusal_is_noted_and_leaves_the_connection(
    send: Send, status: int, note: CallExchange
) -> None:
    def respond(_verb: str, _headers: dict[str, str], _message: Any) -> bytes:
        more = b'www-authenticate: Bearer error="invalid_token"\r\nretry-after: 7\r\n'
        return b"HTTP/1.1 %d X\r\n%scontent-length: 2\r\n\r\nno" % (status, more)

    async with connected(respond) as (messages, server):
        messages._http.session_id = "known"
        for _ in range(2):
            with pytest.raises(McpError, match="refused the request"):
                await send(messages)
        assert server.connections == 1
        messages._http.session_id = None
    assert (note.status, note.retry_after) == (status, 7)
    assert note.challenge == 'Bearer error="invalid_token"'
    assert not note.had_json_rpc_error


@either_way
async def test_a_redirect_within_the_server_is_followed_with_its_message(send: Send) -> None:
    moved = False

    def respond(_verb: str, _headers: dict[str, str], message: Any) -> bytes:
        nonlocal moved
        if not moved:
            moved = True
            return b"HTTP/1.1 307 X\r\nlocation: /other\r\ncontent-length: 0\r\n\r\n"
        return whole(result(message))

    async with connected(respond) as (messages, server):
        assert await send(messages, a=1) == {"ok": True}
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


# --- calls that are sent at once


async def test_a_call_waits_for_a_connection_where_there_is_none() -> None:
    async with connected(lambda _verb, _headers, message: whole(result(message))) as (messages, server):
        assert messages.begin_call({}, {}, CallExchange()) is None
        assert await requested(messages) == {"ok": True}
        assert [message["id"] for _, _, message in server.seen] == [1]


def cut(data: bytes) -> Said:
    """Byte by byte."""
    return tuple(bytes([byte]) for byte in data)


NOTICE = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "hello"}}
PROGRESS = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}}
QUESTION = {"jsonrpc": "2.0", "id": 7, "method": "ping"}


@pytest.mark.parametrize(
    "written",
    {
        "whole": whole,
        "whole, byte by byte": lambda message: cut(whole(message)),
        "as an event": lambda message: events(f"event: message\r\ndata: {json.dumps(message)}\r\n\r\n"),
        "as an event with a place": lambda message: events(f"id: 1\ndata: {json.dumps(message)}\nid: 2\n\n"),
        "as an event, byte by byte": lambda message: cut(events(f"data: {json.dumps(message)}\n\n")),
        "as an event of two lines": lambda message: events(
            "data: {}\ndata: {}\n\n".format(*json.dumps(message).split(" ", 1))
        ),
        "as an event after others": lambda message: events(
            f": hello\n\ndata: {json.dumps(PROGRESS)}\n\ndata: {json.dumps(message)}\n\n"
        ),
        "as the last of two pieces": lambda message: (
            events(f"data: {json.dumps(PROGRESS)}\n\n", is_complete=False),
            b"%x\r\n" % len(f"data: {json.dumps(message)}\n\n"),
            f"data: {json.dumps(message)}\n\n\r\n0\r\n\r\n".encode(),
        ),
        "with its id as text": lambda message: whole({**message, "id": str(message["id"])}),
    }.items(),
    ids=lambda item: item[0],
)
@either_way
async def test_an_answer_is_the_same_however_it_comes(
    send: Send, written: tuple[str, Callable[[Any], Said]], note: CallExchange
) -> None:
    numbers = iter(range(3))

    def respond(_verb: str, _headers: dict[str, str], message: Any) -> Said:
        # Longer each time, so that each has another length.
        return written[1]({**result(message), "result": {"text": "x" * 10 ** next(numbers)}})

    async with connected(respond) as (messages, server):
        for size in (1, 10, 100):
            assert await send(messages) == {"text": "x" * size}
        assert note.status == 200
        assert server.connections == 1


@either_way
async def test_what_comes_before_the_answer_belongs_to_its_call(send: Send, note: CallExchange) -> None:
    seen: list[tuple[str, CallExchange | None]] = []

    class Receiver:
        async def asked(self, method: str, params: Any) -> dict[str, Any]:
            seen.append((method, current_exchange.get()))
            return {}

        def told(self, method: str, params: Any) -> None:
            seen.append((method, current_exchange.get()))

        def told_subscriber(self, method: str, params: Any) -> bool:
            return False

    def respond(_verb: str, _headers: dict[str, str], message: Any) -> Said:
        if "method" not in message:
            return b"HTTP/1.1 202 X\r\ncontent-length: 0\r\n\r\n"
        return events(*(f"data: {json.dumps(item)}\n\n" for item in (NOTICE, QUESTION, result(message))))

    async with connected(respond) as (messages, server):
        messages.listen(Receiver())
        messages.heeds_logs = lambda: True
        assert await send(messages) == {"ok": True}
        await until(lambda: any("method" not in message for _, _, message in server.seen))
    assert seen == [("notifications/message", note), ("ping", note)]


@either_way
async def test_an_answer_that_was_not_asked_for_so_is_refused(send: Send, note: CallExchange) -> None:
    def respond(_verb: str, _headers: dict[str, str], message: Any) -> bytes:
        return whole(result(message)).replace(b"content-type", b"content-encoding: gzip\r\ncontent-type")

    async with connected(respond) as (messages, _):
        with pytest.raises(McpError, match="compressed"):
            await send(messages)
    assert isinstance(note.failure, LostError)


@pytest.mark.parametrize("write", [whole, lambda message: events(f"data: {json.dumps(message)}\n\n")])
@either_way
async def test_an_answer_over_the_limit_is_refused(
    send: Send, write: Callable[[Any], bytes], note: CallExchange
) -> None:
    def respond(_verb: str, _headers: dict[str, str], message: Any) -> bytes:
        return write({**result(message), "result": {"text": "x" * 200_000}})

    async with connected(respond) as (messages, _):
        with pytest.raises(McpError, match="larger than"):
            await send(messages)
    assert note.too_large is not None


async def test_a_call_that_is_cancelled_ends_its_connection_and_tells_the_server() -> None:
    never, told = asyncio.Event(), asyncio.Event()

    def respond(_verb: str, _headers: dict[str, str], message: Any) -> Said:
        if message["method"] == "notifications/cancelled":
            told.set()
            return b"HTTP/1.1 202 X\r\ncontent-length: 0\r\n\r\n"
        return b"HTTP/1.1 200 OK\r\n", never

    async with connected(respond) as (messages, server):
        call = asyncio.create_task(begun(messages))
        await until(lambda: bool(server.seen))
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert call.cancelled()
        await told.wait()
        never.set()
        await until(lambda: server.ended == 1)
        assert server.seen[-1][2]["params"]["requestId"] == server.seen[0][2]["id"]


async def test_each_call_shows_the_credential_of_its_caller() -> None:
    async with connected(lambda _verb, _headers, message: whole(result(message))) as (messages, server):
        await warmed(messages)
        for name in ("ada", "bob", "ada"):
            credential = Credential(headers=(("Authorization", f"Bearer {name}"),))
            coming = messages.begin_call({}, {"mcp-name": name}, CallExchange(credential))
            assert coming is not None
            await coming
    shown = [(headers["authorization"], headers["mcp-name"]) for _, headers, _ in server.seen]
    assert shown == [("Bearer ada", "ada"), ("Bearer bob", "bob"), ("Bearer ada", "ada")]


@either_way
async def test_cookies_of_the_session_are_kept(send: Send) -> None:
    def respond(_verb: str, _headers: dict[str, str], message: Any) -> bytes:
        return whole(result(message)).replace(b"content-type", b"set-cookie: machine=7\r\ncontent-type")

    async with connected(respond) as (messages, server):
        await send(messages)
        await requested(messages)
        assert messages.begin_call({}, {}, CallExchange()) is None  # it would not show them
    assert [headers.get("cookie") for _, headers, _ in server.seen] == [None, "machine=7"]


TOOL = {"name": "t", "inputSchema": {"type": "object"}}


def of_session(message: Any, *, is_modern: bool) -> Any:
    """The result of a request of a session with a server of this era."""
    about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    found: dict[str, Any] = {
        "tools/list": {"tools": [TOOL]},
        "tools/call": {
            "content": [{"type": "text", "text": str(message.get("params", {}).get("arguments"))}]
        },
        "server/discover" if is_modern else "initialize": {
            "supportedVersions": ["2026-07-28"],
            "protocolVersion": "2025-11-25",
            **about,
        },
    }
    return found.get(message["method"])


@pytest.mark.parametrize("is_modern", [False, True])
async def test_calls_of_a_workspace_are_sent_at_once(is_modern: bool, tmp_path: Path) -> None:
    def respond(verb: str, _headers: dict[str, str], message: Any) -> bytes:
        if verb != "POST" or "id" not in message:
            return b"HTTP/1.1 202 X\r\ncontent-length: 0\r\n\r\n"
        found = of_session(message, is_modern=is_modern)
        if found is None:
            error = {"code": -32601, "message": "no such method"}
            return whole({"jsonrpc": "2.0", "id": message["id"], "error": error})
        return whole(result(message, result={"resultType": "complete", **found}))

    begun: list[bool] = []

    class Spied(HttpDispatcher):
        def begin_call(self, *given: Any) -> Any:
            coming = super().begin_call(*given)
            begun.append(coming is not None)
            return coming

    server = Server(respond)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(open_http, "HttpDispatcher", Spied)
        async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening:
            url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/mcp"
            settings = Settings(tmp_path, {"sources": {"s": {"url": url}}, "store": ":memory:"})
            async with spindle.open(settings=settings) as app:
                await app.sync()
                for number in range(3):
                    assert (await app.call("s.t", n=number)).text == str({"n": number})
    calls = [headers for _, headers, message in server.seen if message and message["method"] == "tools/call"]
    assert begun == [True] * 3
    assert {headers.get("mcp-name") for headers in calls} == {"t" if is_modern else None}
    assert len({headers["mcp-protocol-version"] for headers in calls}) == 1
