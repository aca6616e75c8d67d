"""Mods as a source: classes from the workspace's `mods` folder and from installed packages."""

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
    from spindle.sources.mods.config import ModsConfig


class ModsSource(Source):
    """A source of all mods of the workspace."""

    def __init__(self, name: str, config: ModsConfig, root: Path, note: Note) -> None:
        self.name = name
        self.config = config
        self._root = root
        self._note = note

    @staticmethod
    def config_model() -> type[SourceConfig]:
        from spindle.sources.mods.config import ModsConfig

        return ModsConfig

    @staticmethod
    def signature(settings: Mapping[str, Any], root: Path) -> str | None:
        from spindle.sources.code.modules import folder_signature

        # Their settings are part of the source's own signature.
        return folder_signature(root / str(settings["path"])) if "path" in settings else "installed"

    @contextlib.asynccontextmanager
    async def open(self, credential: Credential, on_change: Callable[[], None]) -> AsyncGenerator[Session]:
        from spindle.sources.mods.session import ModsSession

        session = ModsSession(self.name, self.config, self._root, self._note)
        try:
            yield session
        finally:
            await session.stop()
