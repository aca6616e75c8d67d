"""Command line programs as sources: each command that the settings describe is a tool."""

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
    from spindle.sources.cli.config import CliConfig


class CliSource(Source):
    """A source of the commands of one program."""

    def __init__(self, name: str, config: CliConfig, root: Path, note: Note) -> None:
        self.name = name
        self.config = config
        self._root = root

    @staticmethod
    def config_model() -> type[SourceConfig]:
        from spindle.sources.cli.config import CliConfig

        return CliConfig

    @staticmethod
    def signature(settings: Mapping[str, Any], root: Path) -> str | None:
        # The settings are the whole definition, and changes to them are noticed anyway.
        return "settings"

    @contextlib.asynccontextmanager
    async def open(self, credential: Credential, on_change: Callable[[], None]) -> AsyncGenerator[Session]:
        from spindle.sources.cli.session import CliSession

        yield CliSession(self.name, self.config, self._root, credential)
