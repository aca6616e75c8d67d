"""An MCP server over HTTP that runs in the test's own event loop, so that a test can tell it what to do
to the next request and see every byte that arrived. Standard library only."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import struct
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

ANY = {"type": "object"}
READ_ONLY = {"readOnlyHint": True}


@dataclass
class Seen:
    """One request that arrived."""

    verb: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    message: dict[str, Any]

    @property
    def method(self) -> str | None:
        return self.message.get("method")

    @property
    def tool(self) -> str | None:
        return self.message["params"]["name"] if self.method == "tools/call" else None


@dataclass
class Reply:
    """An answer given instead of the usual one."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    kind: str = "text/plain"


Fault = Reply | Literal["reset", "break", "hang"]
"""`reset`: the connection is reset before any answer; `break`: in the middle of it; `hang`: no answer."""


class HttpServer:
    def __init__(
        self,
        era: Literal["handshake", "modern", "sse"] = "handshake",
        answers: Literal["json", "sse"] = "json",
        *,
        get_stream: bool = False,
    ) -> None:
        self.era = era
        self.answers = answers
        self.get_stream = get_stream
        self.seen: list[Seen] = []
        self.aborted = asyncio.Event()
        self.listening = asyncio.Event()
        self.port = 0
        self.tools = [
            {"name": name, "inputSchema": ANY, "annotations": READ_ONLY if name.startswith("read") else {}}
            for name in ("echo", "read", "whoami", "big", "wait", "progress")
        ]
        self.capabilities: dict[str, Any] = {"tools": {"listChanged": True}}
        self.endless = False
        self.meeting: asyncio.Barrier | None = None
        """Where all calls of `whoami` wait for each other before they are answered."""
        self.gives_cookies = False
        self._results: dict[str, dict[str, Any]] = {}
        self._errors: dict[str, dict[str, Any]] = {}
        self._faults: dict[str, deque[Fault]] = defaultdict(deque)
        self._always: dict[str, Fault] = {}
        self._sessions: set[str] = set()
        self._unknown = 404
        self._session_ids = itertools.count(1)
        self._streams: dict[str, asyncio.StreamWriter] = {}
        self._listeners: dict[Any, asyncio.StreamWriter] = {}
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._server: asyncio.Server | None = None

    # --- what a test does with it

    async def __aenter__(self) -> HttpServer:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen, on the same port as before if there was one. Earlier sessions are forgotten."""
        self._sessions.clear()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=2**26)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """As a killed process: nothing listens, and every connection is gone."""
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._streams.clear()
        self._listeners.clear()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{'sse' if self.era == 'sse' else 'mcp'}"

    def next(self, what: str, *faults: Fault) -> None:
        """What to do with the next requests of this method or tool, one after the other."""
        self._faults[what].extend(faults)

    def always(self, what: str, fault: Fault | None) -> None:
        """What to do with every request of this method or tool; `*` is any."""
        if fault is None:
            self._always.pop(what, None)
        else:
            self._always[what] = fault

    def answer_with(self, what: str, result: dict[str, Any]) -> None:
        """The result that every request of this method or tool gets."""
        self._results[what] = result

    def refuse_with(self, tool: str, error: dict[str, Any]) -> None:
        """The JSON-RPC error that every call of this tool gets."""
        self._errors[tool] = error

    def forget_sessions(self, status: int = 404) -> None:
        """Knows none of its sessions any more, and says so by this status."""
        self._sessions.clear()
        self._unknown = status

    def calls(self, tool: str) -> int:
        return sum(1 for request in self.seen if request.tool == tool)

    def methods(self) -> list[str | None]:
        return [request.method or request.verb for request in self.seen]

    async def change_tools(self, name: str) -> None:
        self.tools.append({"name": name, "inputSchema": ANY, "annotations": {}})
        notice: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        for writer in self._streams.values():
            await self._event(writer, notice)
        for request_id, writer in self._listeners.items():
            meta = {"io.modelcontextprotocol/subscriptionId": request_id}
            await self._event(writer, notice | {"params": {"_meta": meta}})

    def end_listening(self) -> None:
        """Drop every stream of notices, without a word."""
        self.listening.clear()
        for writer in [*self._listeners.values(), *self._streams.values()]:
            writer.transport.abort()
        self._listeners.clear()
        self._streams.clear()

    # --- HTTP

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            while (request := await _read(reader)) is not None:
                self.seen.append(request)
                if not await self._respond(request, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            self._writers.discard(writer)
            writer.close()

    def _fault(self, request: Seen) -> Fault | None:
        for what in (request.tool, request.method, request.verb):
            if what and self._faults[what]:
                return self._faults[what].popleft()
        for what in (request.tool, request.method, request.verb, "*"):
            if what in self._always:
                return self._always[what]
        return None

    async def _respond(
        self, request: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Whether the connection may be used again."""
        fault = self._fault(request)
        if fault == "reset":
            _reset(writer)
            return False
        if fault == "break":
            kind = "text/event-stream" if self.answers == "sse" else "application/json"
            head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: 100000\r\n\r\n"
            writer.write(head.encode() + b'data: {"jsonrpc": "2.0", ')
            await writer.drain()
            _reset(writer)
            return False
        if fault == "hang":
            await self._hang(reader)
            return False
        if isinstance(fault, Reply):
            return await self._write(writer, fault)
        if self.era == "sse":
            return await self._respond_sse(request, reader, writer)
        return await self._respond_streamable(request, reader, writer)

    async def _hang(self, reader: asyncio.StreamReader) -> None:
        await reader.read(1)
        self.aborted.set()

    async def _write(self, writer: asyncio.StreamWriter, reply: Reply) -> bool:
        headers = {"Content-Type": reply.kind, "Content-Length": str(len(reply.body)), **reply.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {reply.status} X\r\n{lines}\r\n".encode() + reply.body)
        await writer.drain()
        return True

    async def _open_stream(self, writer: asyncio.StreamWriter) -> None:
        head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        writer.write(head.encode())
        await writer.drain()

    async def _event(self, writer: asyncio.StreamWriter, message: Any, kind: str = "message") -> None:
        data = message if isinstance(message, str) else json.dumps(message)
        writer.write(f"event: {kind}\ndata: {data}\n\n".encode())
        await writer.drain()

    # --- Streamable HTTP

    async def _respond_streamable(
        self, request: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        session = request.headers.get("mcp-session-id")
        if request.verb == "GET":
            return await self._open_get_stream(session, reader, writer)
        if request.verb == "DELETE":
            self._sessions.discard(session or "")
            return await self._write(writer, Reply(200))
        headers: dict[str, str] = {}
        if self.era == "handshake":
            if request.method == "initialize":
                session = f"session-{next(self._session_ids)}"
                self._sessions.add(session)
                headers["Mcp-Session-Id"] = session
            elif session is None:
                return await self._refuse(writer, request, 400, -32000, "Bad Request: no session")
            elif session not in self._sessions:
                if self._unknown == 400:  # as the examples of the TypeScript SDK have it
                    words = "Bad Request: No valid session ID provided"
                    return await self._refuse(writer, request, 400, -32000, words)
                return await self._refuse(writer, request, 404, -32001, "Session not found")
        if "id" not in request.message:
            return await self._write(writer, Reply(202))
        if request.method == "subscriptions/listen":
            return await self._listen(request, reader, writer)
        if request.tool == "wait":
            if self.answers == "sse":
                await self._open_stream(writer)
                await self._progress(request, writer)
            await self._hang(reader)
            return False
        if request.tool == "whoami" and self.meeting is not None:
            await self.meeting.wait()
        if self.gives_cookies:
            headers["Set-Cookie"] = f"who={request.headers.get('authorization', '').split()[-1]}"
        answer = self._answer(request)
        if "error" in answer and request.tool not in self._errors:
            return await self._write(writer, _json(answer, 400))
        if self.answers == "json":
            return await self._write(writer, _json(answer, headers=headers))
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{lines}Connection: close\r\n\r\n"
        writer.write(head.encode())
        if request.tool == "progress":
            await self._progress(request, writer)
        await self._event(writer, answer)
        return False

    async def _refuse(
        self, writer: asyncio.StreamWriter, request: Seen, status: int, code: int, text: str
    ) -> bool:
        error = {"jsonrpc": "2.0", "id": request.message.get("id"), "error": {"code": code, "message": text}}
        return await self._write(writer, _json(error, status))

    async def _open_get_stream(
        self, session: str | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        if not self.get_stream or session not in self._sessions:
            return await self._write(writer, Reply(405))
        await self._open_stream(writer)
        self._streams[session] = writer
        self.listening.set()
        await reader.read(1)
        return False

    async def _listen(
        self, request: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        await self._open_stream(writer)
        request_id = request.message["id"]
        meta = {"io.modelcontextprotocol/subscriptionId": request_id}
        params = {"notifications": {"toolsListChanged": True}, "_meta": meta}
        acknowledged = "notifications/subscriptions/acknowledged"
        await self._event(writer, {"jsonrpc": "2.0", "method": acknowledged, "params": params})
        self._listeners[request_id] = writer
        self.listening.set()
        await reader.read(1)
        self._listeners.pop(request_id, None)
        return False

    async def _progress(self, request: Seen, writer: asyncio.StreamWriter) -> None:
        token = request.message["params"].get("_meta", {}).get("progressToken")
        if token is not None:
            params = {"progressToken": token, "progress": 1, "total": 2, "message": "half"}
            await self._event(
                writer, {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
            )

    # --- the SSE transport that came before

    async def _respond_sse(
        self, request: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        if request.verb == "GET" and request.path == "/sse":
            await self._open_stream(writer)
            session = f"session-{next(self._session_ids)}"
            self._streams[session] = writer
            await self._event(writer, f"/message?session={session}", "endpoint")
            self.listening.set()
            await reader.read(1)
            return False
        if request.verb != "POST" or request.path != "/message":
            return await self._write(writer, Reply(405))
        stream = self._streams.get(request.query["session"][0])
        if stream is None:
            return await self._write(writer, Reply(404))
        if "id" in request.message and request.tool != "wait":
            await self._event(stream, self._answer(request))
        return await self._write(writer, Reply(202))

    # --- MCP

    def _answer(self, request: Seen) -> dict[str, Any]:
        answer = {"jsonrpc": "2.0", "id": request.message["id"]}
        if request.tool in self._errors:
            return answer | {"error": self._errors[request.tool]}
        result = self._result(request)
        if result is None:
            code = -32022 if request.method == "initialize" else -32601
            return answer | {"error": {"code": code, "message": "not here"}}
        if self.era == "modern":
            result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result}
        return answer | {"result": result}

    def _result(self, request: Seen) -> dict[str, Any] | None:
        modern = self.era == "modern"
        info = {"name": "http", "version": "1"}
        for what in (request.tool, request.method):
            if what in self._results:
                return self._results[what]
        match request.method:
            case "server/discover" if modern:
                meta = {"io.modelcontextprotocol/serverInfo": info}
                return {"supportedVersions": ["2026-07-28"], "capabilities": self.capabilities, "_meta": meta}
            case "initialize" if not modern:
                version = request.message["params"]["protocolVersion"]
                return {"protocolVersion": version, "capabilities": self.capabilities, "serverInfo": info}
            case "tools/list":
                if self.endless:
                    return {"tools": [], "nextCursor": str(len(self.seen))}
                return {"tools": self.tools}
            case "tools/call":
                return {"content": [{"type": "text", "text": self._text(request)}]}
            case _:
                return None

    def _text(self, request: Seen) -> str:
        given = request.message["params"].get("arguments") or {}
        match request.tool:
            case "whoami":
                shown = ("authorization", "x-key", "cookie")
                found: dict[str, Any] = {name: request.headers.get(name) for name in shown}
                return json.dumps(found | {"query": request.query, "asked_by": given.get("by")})
            case "big":
                return "x" * given["size"]
            case _:
                return str(given.get("text", request.tool))


def _json(message: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None) -> Reply:
    return Reply(status, headers or {}, json.dumps(message).encode(), "application/json")


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close so that the other side gets a reset, not an end."""
    linger = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()


async def _read(reader: asyncio.StreamReader) -> Seen | None:
    line = await reader.readline()
    if not line:
        return None
    verb, target, _ = line.decode().split(" ", 2)
    headers: dict[str, str] = {}
    while (line := await reader.readline()).strip():
        name, _, value = line.decode().partition(":")
        headers[name.strip().lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    parts = urlsplit(target)
    return Seen(verb, parts.path, parse_qs(parts.query), headers, json.loads(body) if body else {})


Serve = Callable[..., HttpServer]
