"""An MCP client written by hand for measuring: HTTP/1.1 over plain sockets, no library between."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

PROTOCOL = "2025-06-18"


class Connection:
    """One kept connection to a server; one request at a time."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host, self.port, self.path = parts.hostname or "127.0.0.1", parts.port or 80, parts.path
        self.session: str | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self.host, self.port, limit=2**24)

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    async def post(self, body: Any, path: str | None = None) -> tuple[int, dict[str, str], bytes]:
        assert self._reader
        assert self._writer
        data = json.dumps(body, separators=(",", ":")).encode()
        head = (
            f"POST {path or self.path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n"
            "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
            f"Content-Length: {len(data)}\r\n"
        )
        if self.session:
            head += f"Mcp-Session-Id: {self.session}\r\nMcp-Protocol-Version: {PROTOCOL}\r\n"
        self._writer.write(head.encode() + b"\r\n" + data)
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(lines[0].split()[1])
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines[1:] if line)
        }
        if "content-length" in headers:
            return status, headers, await self._reader.readexactly(int(headers["content-length"]))
        if headers.get("transfer-encoding") != "chunked":
            return status, headers, b""
        body_parts: list[bytes] = []
        while size := int((await self._reader.readuntil(b"\r\n")).split(b";")[0], 16):
            body_parts.append(await self._reader.readexactly(size))
            await self._reader.readexactly(2)
        await self._reader.readexactly(2)
        return status, headers, b"".join(body_parts)

    async def rpc(self, method: str, params: Any = None, request_id: int | None = None) -> Any:
        body: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if request_id is not None:
            body["id"] = request_id
        if params is not None:
            body["params"] = params
        status, headers, data = await self.post(body)
        if status >= 400:
            raise SystemExit(f"{method}: {status} {data[:300]!r}")
        self.session = headers.get("mcp-session-id", self.session)
        if request_id is None:
            return None
        if headers.get("content-type", "").startswith("text/event-stream"):
            for line in data.splitlines():
                if line.startswith(b"data:") and b'"id"' in line:
                    return json.loads(line[5:])
            raise SystemExit(f"{method}: no answer in {data[:300]!r}")
        return json.loads(data)

    async def handshake(self) -> None:
        info = {"name": "bench", "version": "1"}
        params = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": info}
        await self.rpc("initialize", params, 0)
        await self.rpc("notifications/initialized")


def mcp_call(tool: str) -> Callable[[Connection, int], Any]:
    async def call(connection: Connection, number: int) -> None:
        text = f"hello {number}"
        params = {"name": tool, "arguments": {"text": text}}
        answer = await connection.rpc("tools/call", params, number + 1)
        if answer["result"]["content"][0]["text"] != text:
            raise SystemExit(f"wrong answer: {answer}")

    return call


def rest_call(path: str) -> Callable[[Connection, int], Any]:
    async def call(connection: Connection, number: int) -> None:
        text = f"hello {number}"
        status, _, data = await connection.post({"text": text}, path)
        if status != 200 or text not in data.decode():
            raise SystemExit(f"wrong answer: {status} {data[:200]!r}")

    return call
