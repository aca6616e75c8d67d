"""Events as tools: the operations of AsyncAPI documents that are marked with `x-agent-tool`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.ports.source import Source

if TYPE_CHECKING:
    from spindle.domain.identity import Credential
    from spindle.domain.tool import Tool
    from spindle.sources.events.config import EventsConfig
    from spindle.sources.events.session import EventsSession


class EventsSource(Source["EventsConfig"]):
    """A source of the event tools in AsyncAPI documents."""

    @staticmethod
    def config_model() -> type[EventsConfig]:
        from spindle.sources.events.config import EventsConfig

        return EventsConfig

    @staticmethod
    def signature(settings: Mapping[str, Any], root: Path) -> str | None:
        if "path" not in settings:
            return None
        from spindle.sources.document_changes import folder_signature

        place = root / str(settings["path"])
        return folder_signature(place) if place.parent.is_dir() else "nothing"

    def server_of(self, tool: Tool | None) -> str | None:
        server: Mapping[str, Any] = {} if tool is None else tool.spec.metadata["server"]
        name, url = str(server.get("name", "")), str(server.get("url", ""))
        own = self.config.servers.get(name)
        # An address of the settings may hold a password.
        if not url or (own is not None and own.url is not None):
            return name
        return f"{name} ({url.rpartition('@')[2]})"

    def open(self, credential: Credential, on_change: Callable[[], None]) -> EventsSession:
        from spindle.sources.events.session import EventsSession

        return EventsSession(self.name, self.config, self.root, credential, self.note)
