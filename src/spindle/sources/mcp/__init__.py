"""MCP servers as sources: a process over stdio, or a server over Streamable HTTP or the older SSE."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spindle.domain.identity import Credential
    from spindle.domain.source import SourceConfig
    from spindle.ports.source import Note, Session
    from spindle.sources.mcp.config import McpConfig


class McpSource:
    def __init__(self, name: str, config: McpConfig, root: Path, note: Note) -> None:
        self.name = name
        self.config = config
        self._root = root
        self._note = note

    @staticmethod
    def config_model() -> type[SourceConfig]:
        from spindle.sources.mcp.config import McpConfig

        return McpConfig

    @staticmethod
    def signature(settings: Mapping[str, Any], root: Path) -> str | None:
        return None

    def open(
        self, credential: Credential, on_change: Callable[[], None]
    ) -> AbstractAsyncContextManager[Session]:
        if self.config.url is not None:
            from spindle.sources.mcp.open_http import open_http

            return open_http(self.name, self.config, credential, on_change)
        from spindle.sources.mcp.open_stdio import open_stdio

        return open_stdio(self.name, self.config, self._root, credential, on_change, self._note)
