"""UTCP manuals as sources: each tool is called the way its call template says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.ports.source import Source

if TYPE_CHECKING:
    from spindle.domain.identity import Credential
    from spindle.sources.utcp.config import UtcpConfig
    from spindle.sources.utcp.session import UtcpSession


class UtcpSource(Source["UtcpConfig"]):
    """A UTCP manual, or an OpenAPI document that is read as one."""

    @staticmethod
    def config_model() -> type[UtcpConfig]:
        from spindle.sources.utcp.config import UtcpConfig

        return UtcpConfig

    @staticmethod
    def signature(settings: Mapping[str, Any], root: Path) -> str | None:
        from spindle.sources.document_changes import document_signature

        return document_signature(str(settings.get("document", "")), root)

    def open(self, credential: Credential, on_change: Callable[[], None]) -> UtcpSession:
        from spindle.sources.utcp.session import UtcpSession

        return UtcpSession(self.name, self.config, self.root, credential, self.note)
