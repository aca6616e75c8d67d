"""Mods as a source: classes from the workspace's `mods` folder and from installed packages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.sources.code.source import CodeSource

if TYPE_CHECKING:
    from spindle.domain.identity import Credential
    from spindle.sources.mods.config import ModsConfig
    from spindle.sources.mods.session import ModsSession


class ModsSource(CodeSource["ModsConfig"]):
    """A source of all mods of the workspace."""

    @staticmethod
    def config_model() -> type[ModsConfig]:
        from spindle.sources.mods.config import ModsConfig

        return ModsConfig

    @staticmethod
    def signature(settings: Mapping[str, Any], root: Path) -> str | None:
        from spindle.sources.code.modules import folder_signature

        # Their settings are part of the source's own signature.
        return folder_signature(root / str(settings["path"])) if "path" in settings else "installed"

    def open(self, credential: Credential, on_change: Callable[[], None]) -> ModsSession:
        from spindle.sources.mods.session import ModsSession

        return ModsSession(self.name, self.config, self.root, self.note, self.loaded)
