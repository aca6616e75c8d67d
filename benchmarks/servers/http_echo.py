"""The cheapest HTTP server there is, so that what is measured is the client: `http_echo.py PORT`.

`POST /mcp` is an MCP server over Streamable HTTP with the tool `echo`; at `/events` it answers with streams
of events, as most servers do, and at `/modern` in the version 2026-07-28. `POST /echo` is the same as a REST
API, and `GET /openapi.json` its document.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import httptools
import uvloop

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS = [{"name": "echo", "description": "Give the text back.", "inputSchema": TEXT}]
CONTENT = {"application/json": {"schema": TEXT}}
DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "echo", "version": "1"},
    "paths": {
        "/echo": {
            "post": {
                "operationId": "echo",
                "requestBody": {"required": True, "content": CONTENT},
                "responses": {"200": {"description": "the text", "content": CONTENT}},
            }
        }
    },
}


def answer(method: str, params: dict[str, Any]) -> Any:
    """In the handshake era."""
    if method == "tools/call":
        return {"content": [{"type": "text", "text": params["arguments"]["text"]}]}
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "echo", "version": "1"},
        }
    return {"tools": TOOLS} if method == "tools/list" else {} if method == "ping" else None


def modern_answer(method: str, params: dict[str, Any]) -> Any:
    if method == "server/discover":
        found = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
    else:
        found = answer(method, params) if method in ("tools/list", "tools/call") else None
    return found and {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **found}


class Connection(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.parser = httptools.HttpRequestParser(self)
        self.path = self.body = b""

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self.path, self.body = url, b""

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.transport.write(respond(self.parser.get_method(), self.path, self.body))


def respond(method: bytes, path: bytes, body: bytes) -> bytes:
    if path == b"/openapi.json":
        return whole(json.dumps(DOCUMENT).encode())
    if path == b"/echo":
        return whole(body)
    if method != b"POST":
        return b"HTTP/1.1 405 X\r\ncontent-length: 0\r\n\r\n"
    message = json.loads(body)
    if "id" not in message:
        return b"HTTP/1.1 202 X\r\ncontent-length: 0\r\n\r\n"
    reply = modern_answer if path == b"/modern" else answer
    result = reply(message["method"], message.get("params") or {})
    said: dict[str, Any] = {"result": result}
    if result is None:
        said = {"error": {"code": -32601, "message": "no such method"}}
    data = json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}).encode()
    return events(data) if path == b"/events" else whole(data)


def whole(body: bytes) -> bytes:
    head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nmcp-session-id: one\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


def events(data: bytes) -> bytes:
    event = b"event: message\r\ndata: " + data + b"\r\n\r\n"
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(event), event)


async def main() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()


uvloop.run(main())
