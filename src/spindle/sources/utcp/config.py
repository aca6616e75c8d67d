"""Settings of a UTCP manual."""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from pydantic import ByteSize, Field, field_validator

from spindle.domain.source import SourceConfig
from spindle.errors import suggest

PROTOCOLS: Final = ("http", "sse", "streamable_http", "websocket", "text", "file", "cli")
"""The kinds of call templates that can be called."""
FROM_URL: Final = ("http", "sse", "streamable_http", "text")
FROM_FILE: Final = (*FROM_URL, "websocket", "file")
"""The protocols of a manual's tools, unless the settings say otherwise. Programs are never among them."""


class UtcpConfig(SourceConfig):
    """The settings of a source of kind utcp."""

    auth_place_known: ClassVar[bool] = True

    kind: Literal["utcp"] = "utcp"  # pyright: ignore[reportIncompatibleVariableOverride] - frozen
    document: str
    """A manual, a call template for one, or an OpenAPI document: a URL, or a file of the workspace."""
    utcp_mode: Literal["auto", "manual", "base_url"] = "auto"
    """`manual`: nothing but a manual will do; `base_url`: it is at one of the usual places below this URL."""
    variables: dict[str, str] = Field(default_factory=dict[str, str])
    """Values for the variables of call templates, by their names with or without the manual's."""
    allowed_protocols: tuple[str, ...] = ()
    headers: dict[str, str] = Field(default_factory=dict[str, str])
    """Sent with every request to the manual's own server."""
    base_url: str | None = None
    """The address of an OpenAPI document's API, if not the one it gives."""
    allow_private: bool = False
    """True if a manual from elsewhere may point at this machine or its networks."""
    allow_insecure: bool = False
    """True if plain http and ws may be used with other machines too."""
    max_document_size: ByteSize = Field(default=ByteSize(32 * 1024 * 1024), gt=0)
    # Manuals promise more than their servers keep, and the call was made by the time that shows.
    check_results: bool | Literal["note"] = "note"

    @field_validator("document")
    @classmethod
    def _is_a_place(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("give a URL or a file")
        if "://" in value and not value.startswith(("http://", "https://", "${")):
            raise ValueError("must begin with http:// or https://, or be a file")
        return value

    @field_validator("base_url")
    @classmethod
    def _is_http(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://", "${")):
            raise ValueError("must begin with http:// or https://")
        return value

    @field_validator("allowed_protocols")
    @classmethod
    def _are_known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if name not in PROTOCOLS:
                meant = suggest(name, PROTOCOLS)
                raise ValueError(
                    f"{name!r} is none of {', '.join(PROTOCOLS)}"
                    + (f"; did you mean {meant!r}?" if meant else "")
                )
        return value

    @property
    def is_url(self) -> bool:
        return self.document.startswith(("http://", "https://"))
