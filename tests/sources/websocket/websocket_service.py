"""A real WebSocket server on loopback, whose behaviour a test writes as a function."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from websockets.asyncio.server import Server, ServerConnection
from websockets.http11 import Request, Response

Behaviour = Callable[[ServerConnection], Awaitable[None]]


class Service:
    """`service.behaves = function` decides what happens on a connection."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.received: list[Any] = []
        self.refusal: tuple[int, dict[str, str]] | None = None
        self.refuses_once = False
        self.behaves: Behaviour = self.echo
        self.server: Server | None = None

    @property
    def url(self) -> str:
        assert self.server is not None
        port = next(iter(self.server.sockets)).getsockname()[1]
        return f"ws://127.0.0.1:{port}/socket"

    def __call__(self, requests: dict[str, Any], **further: Any) -> dict[str, Any]:
        """Settings of a source of kind `websocket` for this service."""
        retry = {"wait": 0.001, "max_wait": 0.01}
        return {"kind": "websocket", "url": self.url, "requests": requests, "retry": retry, **further}

    def check(self, connection: ServerConnection, request: Request) -> Response | None:
        self.requests.append(request)
        if self.refusal is None:
            return None
        status, headers = self.refusal
        if self.refuses_once:
            self.refusal = None
        response = connection.respond(status, "no")
        for key, value in headers.items():
            response.headers[key] = value
        return response

    async def handle(self, connection: ServerConnection) -> None:
        await self.behaves(connection)

    async def messages(self, connection: ServerConnection) -> AsyncIterator[Any]:
        async for payload in connection:
            message = json.loads(payload)
            self.received.append(message)
            yield message

    async def echo(self, connection: ServerConnection) -> None:
        async for message in self.messages(connection):
            await connection.send(json.dumps({"id": message.get("id"), "result": message}))
