"""Flows as tools: from files of flows, and from Python files with flows and nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.sources.code.source import CodeSource

if TYPE_CHECKING:
    from spindle.domain.identity import Credential
    from spindle.sources.flows.config import FlowsConfig
    from spindle.sources.flows.session import FlowsSession


class FlowsSource(CodeSource["FlowsConfig"]):
    """The flows and nodes of one folder, as tools."""

    @staticmethod
    def config_model() -> type[FlowsConfig]:
        from spindle.sources.flows.config import FlowsConfig

        return FlowsConfig

    @staticmethod
    def signature(settings: Mapping[str, Any], root: Path) -> str | None:
        from spindle.flows.library import ENDINGS
        from spindle.sources.code.modules import folder_signature

        return folder_signature(root / str(settings.get("path", "flows")), (".py", *ENDINGS))

    def open(self, credential: Credential, on_change: Callable[[], None]) -> FlowsSession:
        from spindle.sources.flows.session import FlowsSession

        return FlowsSession(self.name, self.config, self.root, self.note, self.loaded)
