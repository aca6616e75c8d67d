"""Settings of an API that an OpenAPI document describes."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import ByteSize, Field, field_validator

from spindle.domain.source import SourceConfig


class OpenApiConfig(SourceConfig):
    """The settings of a source of kind openapi."""

    auth_place_known: ClassVar[bool] = True

    kind: Literal["openapi"] = "openapi"  # pyright: ignore[reportIncompatibleVariableOverride] - frozen
    document: str
    """A URL, or a file relative to the workspace."""
    base_url: str | None = None
    """The address of the API, if not the one in the document."""
    server: int | str | None = None
    """One of the document's servers: its number from 0, its URL or its description."""
    server_variables: dict[str, str] = Field(default_factory=dict[str, str])
    """Variables of the server's URL."""
    headers: dict[str, str] = Field(default_factory=dict[str, str])
    allow_private: bool = False
    """True if a document from elsewhere may point at this machine or its networks."""
    max_document_size: ByteSize = Field(default=ByteSize(32 * 1024 * 1024), gt=0)
    max_download_size: ByteSize = Field(default=ByteSize(1024 * 1024 * 1024), gt=0)
    """The limit for an answer that is neither data nor text; it goes to a file."""
    # Documents promise more than their servers keep, and the request was made by the time that shows.
    check_results: bool | Literal["note"] = "note"

    @field_validator("document")
    @classmethod
    def _is_a_place(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("give a URL or a file")
        if "://" in value and not value.startswith(("http://", "https://", "${")):
            raise ValueError("must begin with http:// or https://, or be a file")
        return value

    @field_validator("server")
    @classmethod
    def _is_one(cls, value: int | str | None) -> int | str | None:
        if isinstance(value, int) and value < 0:
            raise ValueError("servers are counted from 0")
        return value

    @field_validator("base_url")
    @classmethod
    def _is_http(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://", "${")):
            raise ValueError("must begin with http:// or https://")
        return value
