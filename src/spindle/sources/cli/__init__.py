"""Command line programs as sources: each command that the settings describe is a tool."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.ports.source import Source

if TYPE_CHECKING:
    from spindle.domain.identity import Credential
    from spindle.domain.tool import Tool
    from spindle.sources.cli.config import CliConfig
    from spindle.sources.cli.session import CliSession


class CliSource(Source["CliConfig"]):
    """A source of the commands of one program."""

    @staticmethod
    def config_model() -> type[CliConfig]:
        from spindle.sources.cli.config import CliConfig

        return CliConfig

    @staticmethod
    def signature(settings: Mapping[str, Any], root: Path) -> str | None:
        # The settings are the whole definition, and changes to them are noticed anyway.
        return "settings"

    def server_of(self, tool: Tool | None) -> str | None:
        return None

    def open(self, credential: Credential, on_change: Callable[[], None]) -> CliSession:
        from spindle.sources.cli.session import CliSession

        return CliSession(self.name, self.config, self.root, credential)
