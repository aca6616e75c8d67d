"""What a user writes about serving the catalog to others: `[serve]`."""

from __future__ import annotations

from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import ByteSize, Field, field_validator, model_validator

from spindle.domain.source import Section

DEFAULT_PORT = 8321


class ServeConfig(Section):
    host: str = Field(default="127.0.0.1", min_length=1, description="the address to listen on")
    port: int = Field(default=DEFAULT_PORT, ge=0, le=65535, description="0: any that is free")
    url: str | None = Field(
        default=None, description="the address by which clients reach the server, where it is another"
    )
    auth_token: str | None = Field(default=None, description="what clients must show as a bearer token")
    auth_token_env: str | None = Field(
        default=None, description="the variable of the environment that holds the token"
    )
    allowed_hosts: tuple[str, ...] = Field(
        default=(), description="further names under which clients may address the server"
    )
    allowed_origins: tuple[str, ...] = Field(
        default=(), description="origins of web pages that may call, besides the server's own"
    )
    max_body_size: ByteSize = Field(default=ByteSize(4 * 1024 * 1024), gt=0)
    shutdown_timeout: float = Field(
        default=10.0, ge=0, description="seconds that running calls may take to end when the server stops"
    )

    instruction: str | None = Field(
        default=None,
        description="what the tools are for, told to MCP clients: the text, or a file that holds it",
    )
    names: Literal["safe", "full"] = Field(
        default="safe", description="tools' names as every model API takes them, or as in the catalog"
    )
    mode: Literal["all", "search", "auto"] = Field(
        default="all", description="offer all tools, or three by which to search, describe and call them"
    )
    max_tools: int = Field(default=100, ge=1, description='tools above which "auto" means "search"')
    page_size: int = Field(default=1000, ge=1, description="tools in one page of a list")
    ask_timeout: float = Field(
        default=300.0, gt=0, description="seconds that a client may take to answer what a call asks"
    )

    @property
    def wants_token(self) -> bool:
        return self.auth_token is not None or self.auth_token_env is not None

    @field_validator("url")
    @classmethod
    def _is_http(cls, value: str | None) -> str | None:
        return None if value is None else checked_url(value)

    @model_validator(mode="after")
    def _one_token(self) -> Self:
        if self.auth_token is not None and self.auth_token_env is not None:
            raise ValueError("give either `auth_token` or `auth_token_env`")
        if self.auth_token is not None and not self.auth_token.strip():
            raise ValueError("`auth_token` is empty; leave it out to want none")
        return self


def checked_url(value: str) -> str:
    """The address without a slash at its end. Raises ValueError for what cannot be one."""
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("must be an address such as https://tools.example.com")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not hold a name or a password")
    return value.rstrip("/")
