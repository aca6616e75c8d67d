"""The agents of the workspace as tools: `[agents.NAME]` in the settings."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.domain.json_schema import to_json
from spindle.ports.source import Source

if TYPE_CHECKING:
    from spindle.domain.identity import Credential
    from spindle.sources.agents.config import AgentsConfig
    from spindle.sources.agents.session import AgentsSession


class AgentsSource(Source["AgentsConfig"]):
    """The agents that the settings describe, as tools."""

    @staticmethod
    def config_model() -> type[AgentsConfig]:
        from spindle.sources.agents.config import AgentsConfig

        return AgentsConfig

    @staticmethod
    def signature(settings: Mapping[str, Any], root: Path) -> str | None:
        return hashlib.sha256(to_json(settings, sort_keys=True, default=repr)).hexdigest()[:32]

    def open(self, credential: Credential, on_change: Callable[[], None]) -> AgentsSession:
        from spindle.sources.agents.session import AgentsSession

        return AgentsSession(self.config)
