"""MCP servers as sources: a process over stdio, or a server over Streamable HTTP or the older SSE."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING

from spindle.ports.source import RelaySource
from spindle.sources.mcp.notices import PacedNotices

if TYPE_CHECKING:
    from spindle.domain.identity import Credential
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.tool import Tool
    from spindle.ports.source import RelaySession
    from spindle.sources.mcp.config import McpConfig


class McpSource(RelaySource["McpConfig"]):
    """A source for an MCP server."""

    _is_older = False
    """True if the last session that was opened spoke a version with a handshake."""
    _paced: PacedNotices | None = None

    @staticmethod
    def config_model() -> type[McpConfig]:
        from spindle.sources.mcp.config import McpConfig

        return McpConfig

    def server_of(self, tool: Tool | None) -> str | None:
        return None if self.config.url is None else ""

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

        def tell(method: str, params: JsonObject, whose: str | None = None) -> None:
            paced.tell(method, params, credential.key if whose is None else whose)

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
                self._is_older = not session.is_modern
                yield session
        finally:
            paced.flush()
