"""Settings that sources share whose tools come from the description of a web API."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import ByteSize, Field, field_validator

from spindle.domain.source import SourceConfig, WebAddress


class ApiConfig(SourceConfig):
    """Settings of every source that is described by a document, wherever it is found."""

    auth_place_known: ClassVar[bool] = True

    headers: dict[str, str] = Field(default_factory=dict[str, str])
    """Sent with every request to the API's own server."""
    allow_private: bool = False
    """True if a document from elsewhere may point at this machine or its networks."""
    max_document_size: ByteSize = Field(default=ByteSize(32 * 1024 * 1024), gt=0)
    # Documents promise more than their servers keep, and the request was made by the time that shows.
    check_results: bool | Literal["note"] = "note"


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
