"""WebSocket services as sources: each request that the settings describe is a tool."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.ports.source import Source

if TYPE_CHECKING:
    from spindle.domain.identity import Credential
    from spindle.domain.source import SourceConfig
    from spindle.ports.source import Note, Session
    from spindle.sources.websocket.config import WebSocketConfig


class WebSocketSource(Source):
    """A source for the requests of a WebSocket service."""

    def __init__(self, name: str, config: WebSocketConfig, root: Path, note: Note) -> None:
        self.name = name
        self.config = config
        self._note = note

    @staticmethod
    def config_model() -> type[SourceConfig]:
        from spindle.sources.websocket.config import WebSocketConfig

        return WebSocketConfig

    @staticmethod
    def signature(settings: Mapping[str, Any], root: Path) -> str | None:
        # The settings are the whole definition, and a change of those is seen anyway.
        return "settings"

    @contextlib.asynccontextmanager
    async def open(self, credential: Credential, on_change: Callable[[], None]) -> AsyncGenerator[Session]:
        from spindle.sources.websocket.session import WebSocketSession

        async with WebSocketSession(self.name, self.config, credential, self._note) as session:
            yield session
