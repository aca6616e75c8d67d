"""Settings of an API that an OpenAPI document describes."""

from __future__ import annotations

from typing import Literal

from pydantic import ByteSize, Field, field_validator

from spindle.sources.api_config import DocumentConfig


class OpenApiConfig(DocumentConfig):
    """The settings of a source of kind openapi."""

    kind: Literal["openapi"] = "openapi"  # pyright: ignore[reportIncompatibleVariableOverride] - frozen
    server: int | str | None = None
    """One of the document's servers: its number from 0, its URL or its description."""
    server_variables: dict[str, str] = Field(default_factory=dict[str, str])
    """Variables of the server's URL."""
    max_download_size: ByteSize = Field(default=ByteSize(1024 * 1024 * 1024), gt=0)
    """The limit for an answer that is neither data nor text; it goes to a file."""

    @field_validator("server")
    @classmethod
    def _is_one(cls, value: int | str | None) -> int | str | None:
        if isinstance(value, int) and value < 0:
            raise ValueError("servers are counted from 0")
        return value

    @property
    def named_server(self) -> str | None:
        """The server that is chosen by its whole address, so that the settings name its host."""
        named = self.server if isinstance(self.server, str) else ""
        host = named.partition("://")[2].partition("/")[0]
        return named if host and "{" not in host else None
