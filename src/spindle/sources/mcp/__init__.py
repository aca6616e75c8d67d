"""MCP servers as sources: a process over stdio, or a server over Streamable HTTP or the older SSE."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING

from spindle.ports.source import RelaySource

if TYPE_CHECKING:
    from spindle.domain.identity import Credential
    from spindle.domain.json_schema import JsonObject
    from spindle.ports.source import RelaySession
    from spindle.sources.mcp.config import McpConfig


class McpSource(RelaySource["McpConfig"]):
    """A source for an MCP server."""

    _is_older = False
    """True if the last session that was opened spoke a version with a handshake."""

    @staticmethod
    def config_model() -> type[McpConfig]:
        from spindle.sources.mcp.config import McpConfig

        return McpConfig

    @contextlib.asynccontextmanager
    async def open(
        self, credential: Credential, on_change: Callable[[], None]
    ) -> AsyncGenerator[RelaySession]:
        # An older server is not asked again what it could not answer: some take long over it, or end.
        known, self._is_older = self._is_older, False
        config = self.config.model_copy(update={"protocol": "handshake"}) if known else self.config
        if config.url is not None:
            from spindle.sources.mcp.open_http import open_http

            opening = open_http(self.name, config, credential, on_change, self._tell)
        else:
            from spindle.sources.mcp.open_stdio import open_stdio

            opening = open_stdio(self.name, config, self.root, credential, on_change, self.note, self._tell)
        async with opening as session:
            self._is_older = not session.is_modern
            yield session

    def _tell(self, method: str, params: JsonObject) -> None:
        for notice in self.notices:
            notice(self.name, method, params)
