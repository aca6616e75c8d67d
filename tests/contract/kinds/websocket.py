"""WebSocket services: with ids that tell replies apart, and without."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from contract.kinds.kind import Kind
from contract.kinds.web import manual, manual_tool
from contract.meeting import Meeting
from servers.running import PATIENCE
from spindle.domain.call import Result


class OverWebSocket(Kind):
    """All of them: the same service behind each."""

    def __init__(self, request: pytest.FixtureRequest, root: Path) -> None:
        super().__init__(request, root)
        self._meeting = Meeting()
        self._begun = asyncio.Event()
        self._over = asyncio.Event()
        self._server: Server | None = None
        self._port = 0

    async def __aenter__(self) -> Self:
        await self.restore()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.lose()

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self._port}/"

    async def restore(self) -> None:
        self._server = await serve(self._handle, "127.0.0.1", self._port)
        self._port = next(iter(self._server.sockets)).getsockname()[1]

    async def lose(self) -> None:
        assert self._server is not None
        for connection in list(self._server.connections):
            connection.transport.abort()
        self._server.close()
        await self._server.wait_closed()

    async def _handle(self, connection: ServerConnection) -> None:
        async with asyncio.TaskGroup() as tasks:
            with contextlib.suppress(ConnectionClosed):
                async for payload in connection:
                    tasks.create_task(self._answer(connection, json.loads(payload)))
        self._over.set()

    async def _answer(self, connection: ServerConnection, message: dict[str, Any]) -> None:
        reply: dict[str, Any]
        match message["op"]:
            case "echo":
                await self._meeting.join()
                reply = {"text": message["text"]}
            case "fail":
                reply = {"error": "out of stock"}
            case "hang":
                self._begun.set()
                return
            case _:
                assert connection.request is not None
                reply = {"text": connection.request.headers.get("Authorization", "")}
        with contextlib.suppress(ConnectionClosed):  # whoever asked may have gone
            await connection.send(json.dumps({"id": message.get("id"), **reply}))

    def said(self, result: Result) -> str:
        return result.structured["text"]

    async def begun(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self._begun.wait()

    async def over(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self._over.wait()

    def shuffle(self, count: int) -> None:
        self._meeting.expect(count)

    @property
    def settings(self) -> dict[str, Any]:
        text = {"text": {"type": "string", "required": True}}
        requests: dict[str, Any] = {
            name: {"message": {"op": name}, "error": "error"} for name in ("fail", "hang", "whoami")
        }
        requests["echo"] = {"message": {"op": "echo", "text": "{text}"}, "parameters": text}
        return {"kind": "websocket", "url": self.url, "requests": requests}


class WebSocketWithIds(OverWebSocket):
    lacks: ClassVar = {
        "ending at the source": "a service is not told: its late reply is known by its id and dropped"
    }

    @property
    def settings(self) -> dict[str, Any]:
        return {**super().settings, "id_field": "id"}


class WebSocketInTurns(OverWebSocket):
    """A call that is given up takes its connection with it."""

    lacks: ClassVar = {
        "answers out of order": "without ids calls take turns, so there is one answer at a time"
    }


class UtcpWebSocket(OverWebSocket):
    lacks: ClassVar = {
        "an error of the tool": "UTCP does not say how a message tells of an error",
        "answers out of order": "without ids calls take turns, so there is one answer at a time",
    }

    @property
    def settings(self) -> dict[str, Any]:
        template = {"call_template_type": "websocket", "url": self.url, "response_format": "json"}
        text = {"echo": {"text": "UTCP_ARG_text_UTCP_ARG"}}
        messages = {name: {"op": name, **text.get(name, {})} for name in self.tools}
        tools = [manual_tool(name, {**template, "message": message}) for name, message in messages.items()]
        return manual(self.root, tools, auth_hosts=[self.url.rstrip("/")])
