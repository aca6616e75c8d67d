"""Settings that sources share whose tools come from the description of a web API."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import ByteSize, Field, field_validator

from spindle.domain.call import KeyPlace
from spindle.domain.source import SourceConfig, WebAddress
from spindle.domain.tool import ToolSpec
from spindle.http.origins import CredentialOrigins, check_auth_host

_OVER_HTTP = frozenset({"http", "sse", "streamable_http", "openapi"})


class ApiConfig(SourceConfig):
    """Settings of every source that is described by a document, wherever it is found."""

    auth_place_known: ClassVar[bool] = True
    key_places: ClassVar[frozenset[KeyPlace]] = frozenset({"header", "parameter"})

    headers: dict[str, str] = Field(default_factory=dict[str, str])
    """Sent with every request to the API's own server."""
    auth_hosts: tuple[str, ...] = ()
    """Hosts that `auth`, `headers` and variables may go to, besides the one that the settings name."""
    allow_private: bool = False
    """True if a document from elsewhere may point at this machine or its networks."""
    max_document_size: ByteSize = Field(default=ByteSize(32 * 1024 * 1024), gt=0)
    # Documents promise more than their servers keep, and the request was made by the time that shows.
    check_results: bool | Literal["note"] = "note"

    def key_place(self, tool: str, spec: ToolSpec) -> tuple[KeyPlace, str] | None:
        found = super().key_place(tool, spec)
        # A manual may have tools that are no requests: they have no headers.
        over_http = spec.metadata.get("call_template_type", "http") in _OVER_HTTP
        return found if found is None or found[0] != "header" or over_http else None

    @field_validator("auth_hosts")
    @classmethod
    def _are_hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(check_auth_host, value))


class DocumentConfig(ApiConfig):
    """Settings of a source whose document is named."""

    document: str
    """A URL, or a file relative to the workspace."""
    base_url: WebAddress | None = None
    """The address of the API, if not the one in an OpenAPI document."""

    @field_validator("document")
    @classmethod
    def _is_a_place(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("give a URL or a file")
        if "://" in value and not value.startswith(("http://", "https://", "${")):
            raise ValueError("must begin with http:// or https://, or be a file")
        return value

    @property
    def is_url(self) -> bool:
        return self.document.startswith(("http://", "https://"))

    def credential_origins(self, source: str, *named: str | None) -> CredentialOrigins:
        """Returns the origins that credentials may go to: those of the document, of `base_url`, and of others
        that the settings name."""
        return CredentialOrigins(source, (self.document, self.base_url, *named), self.auth_hosts)
