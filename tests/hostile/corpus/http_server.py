"""An HTTP server that misbehaves as the path of a request says: `/NAME` is an MCP server of that behaviour.

Bytes are written by hand, since most of what it does is what libraries of HTTP prevent. It is a
program that prints its address.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

TOOL = {"name": "echo", "inputSchema": {"type": "object"}}
ESCAPES = "\x1b[2J\u202e"
MEGABYTE = b"x" * 1_000_000


class Exchange:
    """One request, and the connection that answers it."""

    def __init__(
        self, writer: asyncio.StreamWriter, verb: str, headers: dict[str, str], body: dict[str, Any]
    ) -> None:
        self.writer = writer
        self.verb = verb
        self.headers = headers
        self.body = body

    @property
    def method(self) -> str:
        return str(self.body.get("method", ""))

    async def raw(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def send(
        self, data: bytes, kind: str = "application/json", status: str = "200 OK", **headers: str
    ) -> None:
        shown = {"Content-Type": kind, "Content-Length": str(len(data)), **headers}
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in shown.items())
        await self.raw(f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + data)

    async def begin(self, kind: str = "application/json", status: str = "200 OK") -> None:
        """The head of an answer that ends with the connection."""
        await self.raw(f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n".encode())

    async def result(self, result: Any, **headers: str) -> None:
        answer = {"jsonrpc": "2.0", "id": self.body.get("id"), "result": result}
        await self.send(json.dumps(answer).encode(), **headers)

    async def event(self, message: Any) -> None:
        await self.raw(b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n")

    def usual(self) -> Any:
        """The result of a server that does nothing wrong."""
        match self.method:
            case "initialize":
                info = {"name": "hostile", "version": "1"}
                return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
            case "tools/list":
                return {"tools": [TOOL]}
            case "tools/call":
                return {"content": [{"type": "text", "text": "done"}]}
            case _:
                return {}

    async def behave(self) -> None:
        if self.verb != "POST":
            await self.send(b"", status="405 Method Not Allowed")
        elif "id" not in self.body:
            await self.send(b"", status="202 Accepted")
        else:
            await self.result(self.usual())


Behaviour = Callable[[Exchange], Awaitable[None]]
BEHAVIOURS: dict[str, Behaviour] = {}


def at(*methods: str) -> Callable[[Behaviour], Behaviour]:
    """A behaviour in the answers to these requests. The others are answered as they should be."""

    def decorate(function: Behaviour) -> Behaviour:
        async def behave(exchange: Exchange) -> None:
            await (function(exchange) if exchange.method in methods else exchange.behave())

        BEHAVIOURS[function.__name__] = behave
        return function

    return decorate


def always(function: Behaviour) -> Behaviour:
    BEHAVIOURS[function.__name__] = function
    return function


# --- statuses and heads


@always
async def a_page_of_an_error(exchange: Exchange) -> None:
    await exchange.send(f"<h1>{ESCAPES}</h1>".encode(), "text/html", "500 Internal Server Error")


@always
async def nothing_here(exchange: Exchange) -> None:
    await exchange.send(b"not found", "text/plain", "404 Not Found")


@always
async def nobody_may_come_in(exchange: Exchange) -> None:
    challenge = "Bearer " + ", ".join(f'realm{number}="x"' for number in range(500))
    await exchange.send(b"{}", status="401 Unauthorized", WWW_Authenticate=challenge)


@always
async def come_back_in_a_thousand_years(exchange: Exchange) -> None:
    await exchange.send(b"{}", status="429 Too Many Requests", Retry_After="99999999999999")


@always
async def come_back_at_no_time(exchange: Exchange) -> None:
    await exchange.send(b"{}", status="503 Service Unavailable", Retry_After=f"-1e999{'9' * 5000}")


@always
async def a_redirect_to_itself(exchange: Exchange) -> None:
    await exchange.send(b"", status="307 Temporary Redirect", Location="/a_redirect_to_itself")


@always
async def a_redirect_to_a_file(exchange: Exchange) -> None:
    await exchange.send(b"", status="307 Temporary Redirect", Location="file:///etc/passwd")


@always
async def a_redirect_to_the_metadata_of_a_cloud(exchange: Exchange) -> None:
    await exchange.send(
        b"", status="308 Permanent Redirect", Location="http://169.254.169.254/latest/meta-data"
    )


@always
async def a_redirect_to_nowhere(exchange: Exchange) -> None:
    await exchange.send(b"", status="302 Found", Location="http://[::1")


@always
async def no_answer_at_all(exchange: Exchange) -> None:
    await asyncio.Event().wait()


@always
async def a_closed_connection(exchange: Exchange) -> None:
    exchange.writer.transport.abort()


@always
async def a_status_line_of_garbage(exchange: Exchange) -> None:
    await exchange.raw(b"\x00\xff\x1b[2J not http at all\r\n\r\n")


@always
async def headers_without_end(exchange: Exchange) -> None:
    await exchange.raw(b"HTTP/1.1 200 OK\r\n")
    for number in range(100_000):
        await exchange.raw(f"X-{number}: {'h' * 1000}\r\n".encode())


@always
async def a_head_that_drips(exchange: Exchange) -> None:
    await exchange.raw(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while True:
        await exchange.raw(b"x")
        await asyncio.sleep(0.05)


@always
async def a_flood_of_cookies(exchange: Exchange) -> None:
    cookies = "".join(f"Set-Cookie: c{number}=v; Path=/\r\n" for number in range(200))
    body = json.dumps({"jsonrpc": "2.0", "id": exchange.body.get("id"), "result": exchange.usual()}).encode()
    head = (
        f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{cookies}\r\n"
    )
    await exchange.raw(head.encode() + body)


@always
async def a_session_id_of_escapes(exchange: Exchange) -> None:
    if exchange.method == "initialize":
        await exchange.result(exchange.usual(), Mcp_Session_Id="s" * 50_000)
    else:
        await exchange.behave()


@always
async def a_session_that_is_forgotten_at_once(exchange: Exchange) -> None:
    if exchange.method == "initialize":
        await exchange.result(exchange.usual(), Mcp_Session_Id="one")
    elif exchange.method == "tools/list":
        await exchange.send(b"", status="404 Not Found")
    else:
        await exchange.behave()


# --- bodies


@at("tools/list")
async def a_page_instead_of_an_answer(exchange: Exchange) -> None:
    await exchange.send(b"<html>Log in</html>", "text/html")


@at("tools/list")
async def an_answer_of_no_kind(exchange: Exchange) -> None:
    await exchange.send(b"{}", "\x00;;;=")


@at("tools/list")
async def an_empty_answer(exchange: Exchange) -> None:
    await exchange.send(b"")


@at("tools/list")
async def accepted_and_never_answered(exchange: Exchange) -> None:
    await exchange.send(b"", status="202 Accepted")


@at("tools/list")
async def an_answer_that_is_not_json(exchange: Exchange) -> None:
    await exchange.send(b'{"jsonrpc": "2.0", "id": 1, "result": ')


@at("tools/list")
async def an_answer_that_is_a_list(exchange: Exchange) -> None:
    await exchange.send(b"[[], [], 5]")


@at("tools/list")
async def an_answer_nested_beyond_reading(exchange: Exchange) -> None:
    await exchange.send(b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 100_000 + b"]" * 100_000 + b"}")


@at("tools/list")
async def an_answer_of_millions_of_lists(exchange: Exchange) -> None:
    await exchange.send(b'{"jsonrpc":"2.0","id":1,"result":{"tools":[' + b"[]," * 3_000_000 + b"[]]}}")


@at("tools/list")
async def an_answer_that_is_not_utf8(exchange: Exchange) -> None:
    await exchange.send(b'{"jsonrpc":"2.0","id":1,"result":{"tools":"\xff\xfe"}}')


@at("tools/list")
async def an_answer_to_another_request(exchange: Exchange) -> None:
    answer = {"jsonrpc": "2.0", "id": 4711, "result": exchange.usual()}
    await exchange.send(json.dumps(answer).encode())


@at("tools/list")
async def a_bomb_in_gzip(exchange: Exchange) -> None:
    await exchange.send(gzip.compress(b" " * 50_000_000, 9), Content_Encoding="gzip")


@at("tools/list")
async def a_bomb_in_an_unknown_encoding(exchange: Exchange) -> None:
    await exchange.send(b"\x00" * 100, Content_Encoding="gzip, br, x-bomb")


@at("tools/list")
async def an_answer_that_breaks_off(exchange: Exchange) -> None:
    await exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n{")
    exchange.writer.transport.abort()


@at("tools/list")
async def an_answer_longer_than_it_says(exchange: Exchange) -> None:
    answer = json.dumps({"jsonrpc": "2.0", "id": exchange.body["id"], "result": exchange.usual()}).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(answer) - 9}\r\n\r\n"
    await exchange.raw(head.encode() + answer)


@at("tools/list")
async def a_length_that_is_no_number(exchange: Exchange) -> None:
    await exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: -5\r\n\r\n{}")


@at("tools/list")
async def pieces_of_impossible_size(exchange: Exchange) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    await exchange.raw(head + b"FFFFFFFFFFFFFFFFFF\r\n{}\r\nzz\r\n")


@at("tools/list")
async def an_answer_without_end(exchange: Exchange) -> None:
    await exchange.begin()
    await exchange.raw(b'{"jsonrpc": "2.0", "id": 1, "result": "')
    while True:
        await exchange.raw(MEGABYTE)


@at("tools/list")
async def an_answer_that_drips(exchange: Exchange) -> None:
    await exchange.begin()
    while True:
        await exchange.raw(b" ")
        await asyncio.sleep(0.05)


# --- streams of events


@at("tools/list")
async def events_without_end(exchange: Exchange) -> None:
    await exchange.begin("text/event-stream")
    while True:
        await exchange.raw(b": nothing\n\n" * 1000)


@at("tools/list")
async def an_event_without_end(exchange: Exchange) -> None:
    await exchange.begin("text/event-stream")
    await exchange.raw(b"data: ")
    while True:
        await exchange.raw(MEGABYTE)


@at("tools/list")
async def a_stream_that_says_nothing(exchange: Exchange) -> None:
    await exchange.begin("text/event-stream")
    await asyncio.Event().wait()


@at("tools/list")
async def a_stream_that_ends_without_an_answer(exchange: Exchange) -> None:
    await exchange.begin("text/event-stream")
    await exchange.raw(b"event: message\ndata: {}\n\n")


@at("tools/list")
async def events_of_garbage(exchange: Exchange) -> None:
    await exchange.begin("text/event-stream")
    await exchange.raw(b"event: message\ndata: \xff\xfe{]\n\nid: \x00\n\nretry: abc\n\n" * 100)


@at("tools/call")
async def a_stream_of_pings(exchange: Exchange) -> None:
    await exchange.begin("text/event-stream")
    for number in range(1200):
        await exchange.event({"jsonrpc": "2.0", "id": f"p{number}", "method": "ping"})
    await exchange.event({"jsonrpc": "2.0", "id": exchange.body["id"], "result": exchange.usual()})


@at("tools/call")
async def a_stream_of_notices(exchange: Exchange) -> None:
    await exchange.begin("text/event-stream")
    for number in range(600):
        params = {"level": "error", "data": ESCAPES, "n": number}
        await exchange.event({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
        await exchange.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    await exchange.event({"jsonrpc": "2.0", "id": exchange.body["id"], "result": exchange.usual()})


@at("tools/call")
async def an_answer_twice(exchange: Exchange) -> None:
    await exchange.begin("text/event-stream")
    for _ in range(2):
        await exchange.event({"jsonrpc": "2.0", "id": exchange.body["id"], "result": exchange.usual()})


@at("tools/call")
async def an_answer_and_then_noise_without_end(exchange: Exchange) -> None:
    await exchange.begin("text/event-stream")
    await exchange.event({"jsonrpc": "2.0", "id": exchange.body["id"], "result": exchange.usual()})
    while True:
        await exchange.raw(b": still here\n\n" * 1000)
        await asyncio.sleep(0.01)


@at("tools/call")
async def a_call_that_breaks_off(exchange: Exchange) -> None:
    await exchange.begin("text/event-stream")
    await exchange.raw(b"event: message\ndata: {")
    exchange.writer.transport.abort()


# --- the transport of before, with its one stream


async def _legacy(exchange: Exchange, events: Callable[[Exchange], Awaitable[None]]) -> None:
    if exchange.verb == "POST":
        await exchange.send(b"", status="405 Method Not Allowed")
        return
    await exchange.begin("text/event-stream")
    await events(exchange)
    await asyncio.Event().wait()


@always
async def posts_to_another_host(exchange: Exchange) -> None:
    async def events(exchange: Exchange) -> None:
        await exchange.raw(b"event: endpoint\ndata: http://169.254.169.254/messages\n\n")

    await _legacy(exchange, events)


@always
async def posts_to_no_address(exchange: Exchange) -> None:
    async def events(exchange: Exchange) -> None:
        await exchange.raw(b"event: endpoint\ndata: http://[\xff\n\n")

    await _legacy(exchange, events)


@always
async def an_endpoint_that_never_comes(exchange: Exchange) -> None:
    async def events(exchange: Exchange) -> None:
        while True:
            await exchange.raw(b"data: noise\n\n" * 100)
            await asyncio.sleep(0.01)

    await _legacy(exchange, events)


@always
async def an_endpoint_without_end(exchange: Exchange) -> None:
    async def events(exchange: Exchange) -> None:
        await exchange.raw(b"event: endpoint\ndata: /")
        while True:
            await exchange.raw(MEGABYTE)

    await _legacy(exchange, events)


# --- the server


_connections: set[asyncio.Task[None] | None] = set()


async def _connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    _connections.add(asyncio.current_task())  # nobody else holds one that waits for ever
    with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
        while head := await reader.readuntil(b"\r\n\r\n"):
            first, *lines = head.decode("latin-1").split("\r\n")
            verb, path, _ = first.split(" ", 2)
            headers = {
                name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
            }
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            exchange = Exchange(writer, verb, headers, json.loads(body) if body else {})
            await BEHAVIOURS.get(path.strip("/"), Exchange.behave)(exchange)
            if writer.is_closing() or verb != "POST":
                break
    writer.close()


async def serve() -> None:
    server = await asyncio.start_server(_connected, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


@contextlib.contextmanager
def running() -> Iterator[str]:
    """The address of a server that runs in a process of its own."""
    process = subprocess.Popen([sys.executable, "-I", __file__], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


if __name__ == "__main__":
    asyncio.run(serve())
