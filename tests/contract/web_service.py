"""A web service on loopback whose every answer is known. Killed, it comes back at its old address."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from contract.meeting import Meeting

Answer = tuple[int, Any]


class WebService:
    """Has `/echo`, `/fail`, `/hang`, `/whoami`, and the documents of `pages`."""

    def __init__(self) -> None:
        self.pages: dict[str, Any] = {}
        self.meeting = Meeting()
        self.begun = asyncio.Event()
        self.over = asyncio.Event()
        self._port = 0
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[Any], asyncio.StreamWriter] = {}

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    async def start(self) -> None:
        """Listen, at the same address as before if there was one."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """As a killed process: nothing listens, and every connection is reset."""
        assert self._server is not None
        self._server.close()
        ending = dict(self._connections)
        for task, writer in ending.items():
            writer.transport.abort()
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = writer
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                while True:
                    head = (await reader.readuntil(b"\r\n\r\n")).decode()
                    line, *rest = head.strip().split("\r\n")
                    pairs = (entry.partition(":") for entry in rest)
                    headers = {name.lower(): value.strip() for name, _, value in pairs}
                    body = await reader.readexactly(int(headers.get("content-length", 0)))
                    status, answer = await self._answer(line.split(" ")[1], headers, body, reader)
                    writer.write(_response(status, answer))
                    await writer.drain()
        except asyncio.CancelledError:
            pass  # killed
        finally:
            del self._connections[task]
            writer.close()

    async def _answer(
        self, target: str, headers: Mapping[str, str], body: bytes, reader: asyncio.StreamReader
    ) -> Answer:
        parts = urlsplit(target)
        match parts.path:
            case "/echo":
                await self.meeting.join()
                given = parse_qs(parts.query).get("text")
                return 200, {"text": given[0] if given else json.loads(body)["data"]["text"]}
            case "/fail":
                return 409, {"message": "out of stock"}
            case "/hang":
                self.begun.set()
                await reader.read(1)
                self.over.set()
                raise ConnectionResetError
            case "/whoami":
                return 200, {"text": headers.get("authorization", "")}
            case path:
                found = self.pages.get(path)
                return (404, {"message": "nothing here"}) if found is None else (200, found)


def _response(status: int, answer: Any) -> bytes:
    body = json.dumps(answer).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body
