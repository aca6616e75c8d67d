"""WebSocket services as sources: each request that the settings describe is a tool."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.ports.source import Source

if TYPE_CHECKING:
    from spindle.domain.identity import Credential
    from spindle.sources.websocket.config import WebSocketConfig
    from spindle.sources.websocket.session import WebSocketSession


class WebSocketSource(Source["WebSocketConfig"]):
    """A source for the requests of a WebSocket service."""

    @staticmethod
    def config_model() -> type[WebSocketConfig]:
        from spindle.sources.websocket.config import WebSocketConfig

        return WebSocketConfig

    @staticmethod
    def signature(settings: Mapping[str, Any], root: Path) -> str | None:
        # The settings are the whole definition, and a change of those is seen anyway.
        return "settings"

    def open(self, credential: Credential, on_change: Callable[[], None]) -> WebSocketSession:
        from spindle.sources.websocket.session import WebSocketSession

        return WebSocketSession(self.name, self.config, credential, self.note)
