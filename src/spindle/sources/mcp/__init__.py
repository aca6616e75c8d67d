"""MCP servers as sources: a process over stdio, or a server over Streamable HTTP or the older SSE."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import itertools
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING

from spindle.ports.source import RelaySource
from spindle.sources.mcp.asking import AskingTools
from spindle.sources.mcp.notices import UPDATED, PacedNotices

if TYPE_CHECKING:
    from pathlib import Path

    from spindle.domain.call import Call
    from spindle.domain.identity import Credential, Principal
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.peer import SessionHolder
    from spindle.domain.tool import Tool
    from spindle.ports.source import Note, RelaySession
    from spindle.sources.mcp.config import McpConfig


class McpSource(RelaySource["McpConfig"]):
    """A source for an MCP server."""

    _is_older = False
    """True if the last session that was opened spoke a version with a handshake."""
    _paced: PacedNotices | None = None
    _marks = itertools.count(1)

    def __init__(self, name: str, config: McpConfig, root: Path, note: Note) -> None:
        super().__init__(name, config, root, note)
        self._sessions, self._answers = config.sessions, config.answers
        self._asking = AskingTools()

    @staticmethod
    def config_model() -> type[McpConfig]:
        from spindle.sources.mcp.config import McpConfig

        return McpConfig

    def server_of(self, tool: Tool | None) -> str | None:
        return None if self.config.url is None else ""

    def holder_of(self, principal: Principal, client: SessionHolder | None) -> str:
        way = self._sessions
        if self.is_stateful is False or way == "shared":
            return ""
        if way == "principal" or client is None:
            return "" if way == "auto" else principal.holder
        return client.holder if way == "client" or client.wants_own_session(self._answers) else ""

    def runs_alone(self, call: Call) -> bool:
        if call.tool not in self._asking or self.config.sessions not in ("auto", "shared"):
            return False
        client = call.peer
        if self.config.sessions == "shared" or client is None or not client.has_session:
            return self.is_stateful is not False
        # The state of its own session counts more, and it is asked itself whichever of its calls it is for.
        return not client.wants_own_session(self.config.answers)

    @contextlib.asynccontextmanager
    async def open(
        self, credential: Credential, on_change: Callable[[], None]
    ) -> AsyncGenerator[RelaySession]:
        # An older server is not asked again what it could not answer: some take long over it, or end.
        known, self._is_older = self._is_older, False
        config = self.config.model_copy(update={"protocol": "handshake"}) if known else self.config

        def pass_on(method: str, params: JsonObject, whose: str) -> None:
            for notice in list(self.notices):
                notice(self.name, method, params, whose)

        self._paced = paced = self._paced or PacedNotices(pass_on)
        mark = f"session {next(self._marks)}"

        def tell(method: str, params: JsonObject, whose: str | None = None) -> None:
            # A list changes for all of them, and is told at one pace.
            all_of_them = mark if method == UPDATED else credential.key
            paced.tell(method, params, all_of_them if whose is None else whose)

        if config.url is not None:
            # The HTTP client takes a while to load, and others use the event loop.
            await asyncio.to_thread(importlib.import_module, "spindle.sources.mcp.open_http")
            from spindle.sources.mcp.open_http import open_http

            opening = open_http(self.name, config, credential, on_change, tell)
        else:
            from spindle.sources.mcp.open_stdio import open_stdio

            opening = open_stdio(self.name, config, self.root, credential, on_change, self.note, tell)
        try:
            async with opening as session:
                self._is_older = self.is_stateful = not session.is_modern
                session.mark = mark
                session.peers.asking, session.peers.runs_alone = self._asking, self.runs_alone
                yield session
        finally:
            paced.flush()
