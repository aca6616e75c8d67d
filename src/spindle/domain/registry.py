"""The settings of registries of MCP servers: the `[registries]` table."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from spindle.domain.source import ApiKeyAuth, BasicAuth, BearerAuth, Section

OFFICIAL = "https://registry.modelcontextprotocol.io"

RegistryAuth = Annotated[BearerAuth | BasicAuth | ApiKeyAuth, Field(discriminator="type")]


class RegistryConfig(Section):
    """One registry: its address, and the credential that it wants."""

    url: str
    auth: RegistryAuth | None = None
    timeout: float = Field(default=30.0, gt=0, description="seconds for one request")

    @field_validator("url")
    @classmethod
    def _is_http(cls, value: str) -> str:
        return checked_registry_url(value)


def checked_registry_url(value: str) -> str:
    """Returns the address without a slash at its end. Raises ValueError for what cannot be one."""
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("must be an address such as https://registry.example.com")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not hold a name or a password: use `auth`")
    return value.rstrip("/").removesuffix("/v0.1").removesuffix("/v0")
