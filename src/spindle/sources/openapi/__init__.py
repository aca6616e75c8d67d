"""REST APIs as sources: every operation of an OpenAPI or Swagger document is a tool."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.http.addresses import host_in
from spindle.ports.source import Source

if TYPE_CHECKING:
    from spindle.domain.identity import Credential
    from spindle.domain.tool import Tool
    from spindle.sources.openapi.config import OpenApiConfig
    from spindle.sources.openapi.session import OpenApiSession


class OpenApiSource(Source["OpenApiConfig"]):
    """A REST API whose tools come from its OpenAPI or Swagger document."""

    @staticmethod
    def config_model() -> type[OpenApiConfig]:
        from spindle.sources.openapi.config import OpenApiConfig

        return OpenApiConfig

    @staticmethod
    def signature(settings: Mapping[str, Any], root: Path) -> str | None:
        from spindle.sources.document_changes import document_signature

        return document_signature(str(settings.get("document", "")), root)

    def server_of(self, tool: Tool | None) -> str | None:
        if tool is None or self.config.base_url is not None:
            return ""
        return host_in(str(tool.spec.metadata.get("server") or ""))

    def open(self, credential: Credential, on_change: Callable[[], None]) -> OpenApiSession:
        from spindle.sources.openapi.session import OpenApiSession

        return OpenApiSession(self.name, self.config, self.root, self.note)
