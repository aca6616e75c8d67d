"""HTTP APIs by nothing but their address: a description is looked for, or one tool makes any request."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from spindle.ports.source import Source

if TYPE_CHECKING:
    from spindle.domain.identity import Credential
    from spindle.domain.source import SourceConfig
    from spindle.ports.source import Note
    from spindle.sources.http_api.config import HttpConfig
    from spindle.sources.http_api.session import HttpApiSession


class HttpSource(Source):
    """A source for an HTTP API that is known only by its address."""

    def __init__(self, name: str, config: HttpConfig, root: Path, note: Note) -> None:
        self.name = name
        self.config = config
        self._root = root
        self._note = note

    @staticmethod
    def config_model() -> type[SourceConfig]:
        from spindle.sources.http_api.config import HttpConfig

        return HttpConfig

    @contextlib.asynccontextmanager
    async def open(
        self, credential: Credential, on_change: Callable[[], None]
    ) -> AsyncGenerator[HttpApiSession]:
        from spindle.sources.http_api.session import HttpApiSession

        async with HttpApiSession(
            self.name, self.config, self._root, credential, self._note, on_change
        ) as session:
            yield session
