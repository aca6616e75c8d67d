"""UTCP manuals as sources: each tool is called the way its call template says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.http.addresses import host_in
from spindle.ports.source import Source

if TYPE_CHECKING:
    from spindle.domain.identity import Credential
    from spindle.domain.tool import Tool
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

    def server_of(self, tool: Tool | None) -> str | None:
        metadata = {} if tool is None else tool.spec.metadata
        url = metadata.get("template", {}).get("url") or metadata.get("server")
        # Without an address it is a program, of which each call starts its own, or a text.
        return host_in(str(url)) if url else None

    def open(self, credential: Credential, on_change: Callable[[], None]) -> UtcpSession:
        from spindle.sources.utcp.session import UtcpSession

        return UtcpSession(self.name, self.config, self.root, credential, self.note)
