"""Events as tools: the operations of AsyncAPI documents that are marked with `x-agent-tool`."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.ports.source import Source

if TYPE_CHECKING:
    from spindle.domain.identity import Credential
    from spindle.domain.source import SourceConfig
    from spindle.ports.source import Note
    from spindle.sources.events.config import EventsConfig
    from spindle.sources.events.session import EventsSession


class EventsSource(Source):
    """A source of the event tools in AsyncAPI documents."""

    def __init__(self, name: str, config: EventsConfig, root: Path, note: Note) -> None:
        self.name = name
        self.config = config
        self.root = root
        self.note = note

    @staticmethod
    def config_model() -> type[SourceConfig]:
        from spindle.sources.events.config import EventsConfig

        return EventsConfig

    @staticmethod
    def signature(settings: Mapping[str, Any], root: Path) -> str | None:
        if "path" not in settings:
            return None
        from spindle.sources.events.folder import signature

        place = root / str(settings["path"])
        return signature(place) if place.parent.is_dir() else "nothing"

    @contextlib.asynccontextmanager
    async def open(
        self, credential: Credential, on_change: Callable[[], None]
    ) -> AsyncGenerator[EventsSession]:
        from spindle.sources.events.session import EventsSession

        async with EventsSession(self.name, self.config, self.root, credential, self.note) as session:
            yield session
