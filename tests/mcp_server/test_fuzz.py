"""Whatever arrives at the port of `spindle serve --http` is answered or refused: nothing breaks the server,
makes it hang or fills its memory, in either era of the protocol."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import os
import random
import re
import signal
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from servers import warm
from servers.running import PATIENCE
from servers.serving import ERAS

ROUNDS = 400
AT_ONCE = 16
MAX_GROWTH = 96 * 1024 * 1024
MODERN, HANDSHAKE = "2026-07-28", "2025-11-25"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}
TOOLS = '''
from spindle import Context, tool


@tool
def shout(text: str, times: int = 1) -> str:
    """Shout."""
    return text.upper() * min(times, 3)


@tool
def work(context: Context) -> str:
    """Report progress."""
    context.progress(1, 2, "half")
    return "done"
'''

METHODS: dict[str, dict[str, Any]] = {
    "tools/list": {"cursor": None},
    "tools/call": {"name": "shout", "arguments": {"text": "hi", "times": 2}},
    "resources/list": {},
    "resources/read": {"uri": "file:///x"},
    "resources/templates/list": {},
    "prompts/list": {},
    "prompts/get": {"name": "x", "arguments": {"a": "b"}},
    "completion/complete": {
        "ref": {"type": "ref/prompt", "name": "x"},
        "argument": {"name": "a", "value": "b"},
    },
    "logging/setLevel": {"level": "error"},
    "ping": {},
    "server/discover": {},
    "subscriptions/listen": {"notifications": {"toolsListChanged": True}},
    "resources/subscribe": {"uri": "file:///x"},
    "notifications/cancelled": {"requestId": 1},
    "notifications/progress": {"progressToken": 1, "progress": 0.5},
    "notifications/initialized": {},
    "no/such": {},
}
ODD_TEXT = [
    "",
    " ",
    "\0",
    "\ud800",
    "å" * 50,
    "x" * 20_000,
    "../../etc/passwd",
    "__class__",
    "%s%n",
    "\r\nX: y",
]
ODD_NUMBERS = [0, -1, 2**31, 2**63, 2**64, 10**400, -(10**400), 0.5, 1e308, -0.0]
SPECIALS = [
    b"",
    b"null",
    b"{}",
    b"[]",
    b"true",
    b'"text"',
    b"\xff\xfe\x00",
    b"\xef\xbb\xbf{}",
    b"[" * 200_000,
    b'{"a":' * 100_000,
    b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":' + b'{"a":' * 500 + b"1" + b"}" * 501,
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"shout","arguments":{"text":'
    + b"[" * 900 + b"]" * 900 + b"}}}",
    b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}',
    b'{"jsonrpc":"2.0","id":"' + b"i" * 1_000_000 + b'","method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":"' + b"m" * 1_000_000 + b'"}',
    b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping","method":"tools/list"}',
    b'{"jsonrpc":"2.0","id":1,"result":{}}',
    b'{"jsonrpc":"2.0","id":1,"error":{"code":"x"}}',
    b"[" + b'{"jsonrpc":"2.0","id":1,"method":"ping"},' * 5000 + b"1]",
    b"x" * (5 * 1024 * 1024),
]  # fmt: skip
MALFORMED_HTTP = [
    b"\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET /mcp\r\n\r\n",
    b"POST /mcp HTTP/9.9\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5\r\n\r\n{}",
    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n{}",
    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{",
    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}",
    b"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nA: " + b"a" * 500_000 + b"\r\n\r\n",
    b"GET /mcp HTTP/1.1\r\n" + b"A: b\r\n" * 50_000 + b"\r\n",
    b"GET /" + b"a" * 500_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET /mcp HTTP/1.1\r\nHost: [::1\r\n\r\n",
    b"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n",
    b"GET http://[/mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET /%ff%00/../mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    b"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\x00b\r\n\r\n",
    b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example\r\n\r\n",
]


class Server:
    """A served workspace, and the bytes that go to it."""

    def __init__(self, url: str, process: asyncio.subprocess.Process, said: bytearray) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self.host, self.port = parts.hostname, parts.port
        self.process = process
        self.said = said
        """What it wrote to stderr."""

    async def send(self, data: bytes, *, ends: bool = False) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the answer; status 0: the connection was closed without one.
        `ends`: there is no more to come, for what is no whole request."""
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection(self.host, self.port, limit=2**24)
            try:
                with contextlib.suppress(ConnectionError):
                    writer.write(data)
                    await writer.drain()
                    if ends:
                        writer.write_eof()
                return await _answer(reader)
            finally:
                writer.close()
                with contextlib.suppress(ConnectionError):
                    await writer.wait_closed()

    async def post(self, body: bytes, headers: dict[str, str], method: str = "POST") -> tuple[int, bytes]:
        """The answer to one request that is well-formed as HTTP."""
        given = {"host": f"{self.host}:{self.port}", "connection": "close", **headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
        head = f"{method} /mcp HTTP/1.1\r\n{lines}content-length: {len(body)}\r\n\r\n"
        status, _, answer = await self.send(head.encode("latin-1") + body)
        check(status, answer, body)
        return status, answer

    async def open_session(self) -> dict[str, str]:
        info = {"name": "test", "version": "1"}
        params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": info}
        body = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).encode()
        head = (
            f"POST /mcp HTTP/1.1\r\nhost: {self.host}:{self.port}\r\nconnection: close\r\n"
            "content-type: application/json\r\naccept: application/json, text/event-stream\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        status, headers, _ = await self.send(head.encode() + body)
        assert status == 200
        session = {"mcp-session-id": headers["mcp-session-id"], "mcp-protocol-version": HANDSHAKE}
        told = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
        assert (await self.post(told, {**JSON, **session}))[0] == 202
        return session

    async def works(self, era: str) -> None:
        """An ordinary call is answered."""
        message, headers = await self.request(era, "tools/call", METHODS["tools/call"])
        status, answer = await self.post(json.dumps(message).encode(), headers)
        assert status == 200
        assert json.loads(answer)["result"]["content"][0]["text"] == "HIHI"

    async def request(
        self, era: str, method: str, params: dict[str, Any], session: dict[str, str] | None = None
    ) -> tuple[dict[str, Any], dict[str, str]]:
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": method, "params": dict(params)}
        if method.startswith("notifications/"):
            del message["id"]
        if era == "handshake":
            return message, {**JSON, **(session or await self.open_session())}
        message["params"]["_meta"] = META
        headers = {**JSON, "mcp-protocol-version": MODERN, "mcp-method": method}
        if "name" in params or "uri" in params:
            headers["mcp-name"] = params.get("name") or params["uri"]
        return message, headers

    @property
    def memory(self) -> int:
        """Bytes that the process holds."""
        status = Path(f"/proc/{warm.pid_of(self.process.pid)}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024


JSON = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


async def _answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return 0, {}, b""
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("content-type", "").startswith("text/event-stream"):
        return int(first.split()[1]), headers, await reader.read(1 << 16)  # it may never end
    with contextlib.suppress(ConnectionError):
        length = headers.get("content-length")
        body = await (reader.read() if length is None else reader.readexactly(int(length)))
        return int(first.split()[1]), headers, body
    return int(first.split()[1]), headers, b""


def check(status: int, answer: bytes, sent: bytes) -> None:
    """That nothing of ours broke."""
    shown = f"{sent[:300]!r} got {status}: {answer[:300]!r}"
    assert status < 500, shown
    assert b"Traceback" not in answer, shown
    assert b"-32603" not in answer, shown


@contextlib.asynccontextmanager
async def serving(folder: Path) -> AsyncGenerator[Server]:
    (folder / "spindle.toml").touch()
    (folder / "tools").mkdir()
    (folder / "tools" / "tools.py").write_text(TOOLS)
    process = await asyncio.create_subprocess_exec(
        warm.SPINDLE, "-w", str(folder), "serve", "--http", "--port", "0",
        stderr=asyncio.subprocess.PIPE, env={**os.environ, "SPINDLE_HOME": str(folder / "home")},
    )  # fmt: skip
    assert process.stderr is not None
    said = bytearray()
    draining: asyncio.Task[None] | None = None
    try:
        async with asyncio.timeout(PATIENCE):
            while not (match := re.search(rb"serving MCP on (\S+)", line := await process.stderr.readline())):
                assert line, "the server ended"
        draining = asyncio.create_task(_drain(process.stderr, said))
        yield Server(match[1].decode(), process, said)
        assert process.returncode is None, "the server ended"
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            await process.wait()
            if draining is not None:
                await draining
    assert b"Traceback" not in said, bytes(said[-3000:])


async def _drain(stream: asyncio.StreamReader, into: bytearray) -> None:
    while part := await stream.read(1 << 16):
        into += part


# --- what is made up


def odd_value(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.randrange(8 if depth < 4 else 5)
    match kind:
        case 0:
            return rng.choice([None, True, False])
        case 1 | 2:
            return rng.choice(ODD_NUMBERS)
        case 3 | 4:
            return rng.choice(ODD_TEXT)
        case 5:
            return [odd_value(rng, depth + 1) for _ in range(rng.randrange(4))]
        case _:
            keys = ("name", "uri", "_meta", "cursor", "progressToken", "level", rng.choice(ODD_TEXT))
            return {rng.choice(keys): odd_value(rng, depth + 1) for _ in range(rng.randrange(4))}


def with_odd_place(rng: random.Random, message: Any) -> Any:
    """The message with something else, nothing, or something more at one place anywhere in it."""
    changed = copy.deepcopy(message)
    places: list[tuple[Any, Any]] = []

    def collect(value: Any) -> None:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            places.append((value, key))
            if isinstance(inner, (dict, list)):
                collect(inner)

    collect(changed)
    holder, key = rng.choice(places)
    match rng.randrange(4):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[rng.choice([*ODD_TEXT, "_meta", "arguments"])] = odd_value(rng)
        case _:
            holder[key] = odd_value(rng)
    return changed


def odd_body(rng: random.Random, message: Any) -> bytes:
    for _ in range(rng.randrange(4)):
        message = with_odd_place(rng, message) if message else message
    if rng.random() < 0.1:
        message = [message] * rng.randrange(4)
    body = bytearray(json.dumps(message).encode())
    match rng.randrange(6):
        case 0:
            del body[rng.randrange(len(body) + 1) :]
        case 1:
            for _ in range(rng.randrange(1, 6)):
                body[rng.randrange(len(body))] = rng.randrange(256)
        case 2:
            at = rng.randrange(len(body) + 1)
            body[at:at] = rng.randbytes(rng.randrange(20))
        case _:
            pass
    return bytes(body)


def odd_headers(rng: random.Random, headers: dict[str, str]) -> dict[str, str]:
    changed = dict(headers)
    if rng.random() < 0.5:
        return changed
    values = [
        "",
        "x",
        "*/*",
        "text/html",
        MODERN,
        HANDSHAKE,
        "1999-01-01",
        "\xff",
        "a" * 5000,
        "=?base64?!?=",
    ]
    names = [
        *headers,
        "mcp-session-id",
        "mcp-name",
        "mcp-param-x",
        "last-event-id",
        "origin",
        "authorization",
    ]
    name = rng.choice(names)
    if rng.random() < 0.3:
        changed.pop(name, None)
    else:
        changed[name] = rng.choice(values)
    return changed


# --- the tests


@pytest.mark.parametrize("era", ERAS)
async def test_odd_messages_are_answered_or_refused(tmp_path: Path, era: str) -> None:
    rng = random.Random(f"messages {era}")
    gate = asyncio.Semaphore(AT_ONCE)
    statuses: dict[int, int] = {}
    async with serving(tmp_path) as server:
        session = await server.open_session()

        async def one(number: int) -> None:
            method = rng.choice(list(METHODS))
            message, headers = await server.request(era, method, METHODS[method], session)
            if "id" in message:
                message["id"] = number
            verb = rng.choices(["POST", "GET", "DELETE", "PUT"], [40, 1, 0, 1])[0]
            body, odd = odd_body(rng, message), odd_headers(rng, headers)
            async with gate:
                status, _ = await server.post(body, odd, verb)
            statuses[status] = statuses.get(status, 0) + 1

        await asyncio.gather(*(one(number) for number in range(ROUNDS)))
        before = server.memory
        await asyncio.gather(*(one(number) for number in range(ROUNDS)))
        await server.works(era)
        assert server.memory - before < MAX_GROWTH
    # What is made up must be neither all refused nor all taken, or it would test nothing.
    assert statuses.get(200, 0) > ROUNDS / 20, statuses
    assert statuses.get(400, 0) > ROUNDS / 20, statuses
    assert 0 not in statuses, statuses


@pytest.mark.parametrize("era", ERAS)
async def test_arguments_nested_deeply_are_refused_as_arguments(tmp_path: Path, era: str) -> None:
    async with serving(tmp_path) as server:
        message, headers = await server.request(era, "tools/call", METHODS["tools/call"])
        for depth in (100, 240, 300, 900, 20_000):
            for inside in (b"", b"null", b'{"password": "x"}'):
                text = json.dumps(message).encode().replace(b'"hi"', b"[" * depth + inside + b"]" * depth)
                status, answer = await server.post(text, headers)
                told = json.loads(answer)
                assert status == 400 if "error" in told else told["result"]["isError"] is True
        await server.works(era)


@pytest.mark.parametrize("era", ERAS)
async def test_bodies_that_are_no_messages_are_refused(tmp_path: Path, era: str) -> None:
    async with serving(tmp_path) as server:
        _, headers = await server.request(era, "ping", {})
        before = server.memory
        for _ in range(3):
            for body in SPECIALS:
                status, _ = await server.post(body, headers)
                assert status in (0, 200, 202, 400, 404, 413), body[:100]
                assert status or len(body) > 4 * 1024 * 1024, body[:100]
        await server.works(era)
        assert server.memory - before < MAX_GROWTH


async def test_what_is_no_http_is_refused(tmp_path: Path) -> None:
    rng = random.Random("http")
    noise = [rng.randbytes(rng.randrange(1, 5000)) for _ in range(100)]
    whole = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\n{}"
    for _ in range(100):
        broken = bytearray(whole)
        for _ in range(rng.randrange(1, 5)):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        noise.append(bytes(broken[: rng.randrange(1, len(broken) + 1)]))
    async with serving(tmp_path) as server:
        before = server.memory
        for data in [*MALFORMED_HTTP, *noise]:
            status, _, answer = await server.send(data, ends=True)
            check(status, answer, data)
            assert status != 200, data[:200]
        for era in ERAS:
            await server.works(era)
        assert server.memory - before < MAX_GROWTH


async def test_clients_that_never_finish_do_not_keep_others_waiting(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, contextlib.AsyncExitStack() as open_ones:
        for _ in range(100):
            _, writer = await asyncio.open_connection(server.host, server.port)
            open_ones.callback(writer.close)
            writer.write(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{")
        for era in ERAS:
            await server.works(era)
