"""UTCP manuals as sources: each tool is called the way its call template says."""

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
    from spindle.sources.utcp.config import UtcpConfig


class UtcpSource(Source):
    """A UTCP manual, or an OpenAPI document that is read as one."""

    def __init__(self, name: str, config: UtcpConfig, root: Path, note: Note) -> None:
        self.name = name
        self.config = config
        self._root = root
        self._note = note

    @staticmethod
    def config_model() -> type[SourceConfig]:
        from spindle.sources.utcp.config import UtcpConfig

        return UtcpConfig

    @staticmethod
    def signature(settings: Mapping[str, Any], root: Path) -> str | None:
        document = str(settings.get("document", ""))
        if "://" in document or "${" in document:
            return None
        try:
            found = (root / document).stat()
        except OSError:
            return "missing"
        return f"{found.st_mtime_ns}:{found.st_size}"

    @contextlib.asynccontextmanager
    async def open(self, credential: Credential, on_change: Callable[[], None]) -> AsyncGenerator[Session]:
        from spindle.sources.utcp.session import UtcpSession

        async with UtcpSession(self.name, self.config, self._root, credential, self._note) as session:
            yield session
