"""REST APIs as sources: every operation of an OpenAPI or Swagger document is a tool."""

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
    from spindle.sources.openapi.config import OpenApiConfig
    from spindle.sources.openapi.session import OpenApiSession


class OpenApiSource(Source):
    """A REST API whose tools come from its OpenAPI or Swagger document."""

    def __init__(self, name: str, config: OpenApiConfig, root: Path, note: Note) -> None:
        self.name = name
        self.config = config
        self._root = root
        self._note = note

    @staticmethod
    def config_model() -> type[SourceConfig]:
        from spindle.sources.openapi.config import OpenApiConfig

        return OpenApiConfig

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
    async def open(
        self, credential: Credential, on_change: Callable[[], None]
    ) -> AsyncGenerator[OpenApiSession]:
        from spindle.sources.openapi.session import OpenApiSession

        async with OpenApiSession(self.name, self.config, self._root, self._note) as session:
            yield session
