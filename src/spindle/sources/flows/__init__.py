"""Flows as tools: from files of flows, and from Python files with flows and nodes."""

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
    from spindle.sources.flows.config import FlowsConfig
    from spindle.sources.flows.session import FlowsSession


class FlowsSource(Source):
    """The flows and nodes of one folder, as tools."""

    def __init__(self, name: str, config: FlowsConfig, root: Path, note: Note) -> None:
        self.name = name
        self.config = config
        self._root = root
        self._note = note

    @staticmethod
    def config_model() -> type[SourceConfig]:
        from spindle.sources.flows.config import FlowsConfig

        return FlowsConfig

    @staticmethod
    def signature(settings: Mapping[str, Any], root: Path) -> str | None:
        from spindle.flows.library import ENDINGS
        from spindle.sources.code.modules import folder_signature

        return folder_signature(root / str(settings.get("path", "flows")), (".py", *ENDINGS))

    @contextlib.asynccontextmanager
    async def open(
        self, credential: Credential, on_change: Callable[[], None]
    ) -> AsyncGenerator[FlowsSession]:
        from spindle.sources.flows.session import FlowsSession

        yield FlowsSession(self.name, self.config, self._root, self._note)
