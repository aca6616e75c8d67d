"""MCP, over everything that carries it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest

from contract.kinds.kind import Kind, Request
from servers.http_server import HttpServer
from servers.running import StdioServers, process_end, until
from spindle.domain.call import Result
from spindle.domain.identity import Credential


class Stdio(Kind):
    """A process that speaks MCP. It lists its tools on pages of two."""

    tools = frozenset({"echo", "failed_point", "wait", "env", "received"})
    complaint = "it failed"
    lacks: ClassVar = {
        "answers out of order": "the server answers as it reads; test_mcp_dispatcher.py shuffles answers"
    }

    def __init__(self, request: pytest.FixtureRequest, root: Path) -> None:
        super().__init__(request, root)
        self.servers = StdioServers(root)

    @property
    def settings(self) -> dict[str, Any]:
        schema = {"type": "object"}
        listed = [{"name": name, "inputSchema": schema} for name in sorted(self.tools)]
        return {"kind": "mcp", **self.servers(page_size=2, tools=listed)}

    def fail(self) -> Request:
        return Request("failed_point", {})

    def hang(self) -> Request:
        return Request("wait", {})

    def whoami(self) -> Request:
        return Request("env", {"name": "TOKEN"})

    async def begun(self) -> None:
        await until(lambda: self.servers.calls("wait") > 0)

    async def over(self) -> None:
        methods = lambda: [entry.get("method") for entry in self.servers.recorded()]  # noqa: E731
        await until(lambda: "notifications/cancelled" in methods())

    async def lose(self) -> None:
        process = self.servers.starts()[-1]
        os.kill(process, signal.SIGKILL)
        await process_end(process)

    def credential(self, who: str) -> Credential:
        return Credential(env=(("TOKEN", f"{who}-token"),))

    def shown(self, who: str) -> str:
        return f"{who}-token"


class OverHttp(Kind):
    """All that is carried by HTTP."""

    tools = frozenset({"echo", "read", "whoami", "big", "wait", "progress"})

    def __init__(self, request: pytest.FixtureRequest, root: Path) -> None:
        super().__init__(request, root)
        self.server = self.make()

    def make(self) -> HttpServer:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        failed = {"content": [{"type": "text", "text": self.complaint}], "isError": True}
        self.server.answer_with("big", failed)
        await self.server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.server.stop()

    @property
    def settings(self) -> dict[str, Any]:
        return {"kind": "mcp", "url": self.server.url}

    def echo(self, text: str) -> Request:
        return Request("whoami", {"by": text})

    def fail(self) -> Request:
        return Request("big", {})

    def hang(self) -> Request:
        return Request("wait", {})

    def whoami(self) -> Request:
        return Request("whoami", {})

    def said(self, result: Result) -> str:
        found = json.loads(result.text)
        return found["asked_by"] or found["authorization"]

    async def begun(self) -> None:
        await until(lambda: self.server.calls("wait") > 0)

    async def over(self) -> None:
        server = self.server
        await until(lambda: server.aborted.is_set() or "notifications/cancelled" in server.methods())

    async def lose(self) -> None:
        await self.server.stop()

    async def restore(self) -> None:
        await self.server.start()

    def shuffle(self, count: int) -> None:
        self.server.meeting = asyncio.Barrier(count)


class StreamableHttp(OverHttp):
    """Sessions that begin with a handshake, answers as streams of events."""

    def make(self) -> HttpServer:
        return HttpServer("handshake", "sse", get_stream=True)


class ModernHttp(OverHttp):
    """Every request stands alone, so one session serves everybody."""

    def make(self) -> HttpServer:
        return HttpServer("modern", "json")


class LegacySse(OverHttp):
    """The transport that came before: requests are posted, answers come on one stream."""

    lacks: ClassVar = {
        "answers out of order": "the server answers as it reads; test_mcp_dispatcher.py shuffles answers"
    }

    def make(self) -> HttpServer:
        return HttpServer("sse")

    @property
    def settings(self) -> dict[str, Any]:
        return {**super().settings, "transport": "sse"}
