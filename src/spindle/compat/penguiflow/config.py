"""Penguiflow's description of a source of tools: ExternalToolConfig."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any, Protocol, cast

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from spindle.domain.source import SOURCE_NAME


class ToolContext(Protocol):
    """The part of a planner's context that a tool needs."""

    @property
    def tool_context(self) -> Any:
        """A mapping that may hold `user_id` and `trace_id`."""
        ...

    def pause(self, reason: Any, payload: Any = None) -> Awaitable[Any]:
        """Stops the planner until a person has acted."""
        ...


OutputTransformer = Callable[[str, Any, ToolContext], Any]
"""Called with a tool's name, its output and the context. Returns the output to use, or an awaitable of it."""


class TransportType(StrEnum):
    """The protocols of sources."""

    MCP = "mcp"
    HTTP = "http"
    UTCP = "utcp"
    CLI = "cli"


class McpTransportMode(StrEnum):
    """The transports of an MCP server that is reached by a URL."""

    AUTO = "auto"
    SSE = "sse"
    STREAMABLE_HTTP = "streamable_http"


class AuthType(StrEnum):
    """The kinds of credential."""

    NONE = "none"
    API_KEY = "api_key"
    BEARER = "bearer"
    COOKIE = "cookie"
    OAUTH2_USER = "oauth2_user"


class UtcpMode(StrEnum):
    """The meanings of the address of an HTTP or UTCP source."""

    AUTO = "auto"
    MANUAL_URL = "manual_url"
    BASE_URL = "base_url"


class RetryPolicy(BaseModel):
    """The number of tries of a call, and the waits between them. Spindle tries again only what is safe to
    repeat: a call that never left, or a tool that says so."""

    max_attempts: int = Field(default=3, ge=1, le=10)
    wait_exponential_min_s: float = Field(default=0.1, ge=0.01)
    wait_exponential_max_s: float = Field(default=5.0, ge=0.1)
    retry_on_status: list[int] = Field(default_factory=lambda: [429, 500, 502, 503, 504])


# Settings of later releases that mean nothing here, and what does the same.
_ELSEWHERE = {
    "artifact_extraction": "binary content over 256 KiB is kept in a file without being asked; "
    "`output_transformer` can do more",
    "prompts": "`spindle serve` and the session of a source offer the prompts of MCP servers",
    "apps": "results hold every block of the server, `ui://` links included",
    "arg_validation": "arguments are always checked against the tool's own schema",
}

_NEEDED = {
    AuthType.BEARER: ("token",),
    AuthType.API_KEY: ("api_key",),
    AuthType.COOKIE: ("cookie_name", "cookie_value"),
}


class ExternalToolConfig(BaseModel):
    """A source of tools: an MCP server, an HTTP API, a UTCP manual or programs that one describes."""

    model_config = ConfigDict(extra="forbid")

    name: str
    """The source's name, which is put before the names of its tools."""
    description: str = ""
    transport: TransportType
    connection: str
    """A command or a URL for MCP; a URL or a file for the others."""
    utcp_mode: UtcpMode = UtcpMode.AUTO
    mcp_transport_mode: McpTransportMode = McpTransportMode.AUTO
    env: dict[str, str] = Field(default_factory=dict[str, str])
    auth_type: AuthType = AuthType.NONE
    auth_config: dict[str, Any] = Field(default_factory=dict[str, Any])
    """`token`; `api_key` and `header`; `cookie_name` and `cookie_value`. For a program also `env`, the
    variable in which it expects the credential."""
    timeout_s: float = Field(default=30.0, ge=1.0, le=300.0)
    retry_policy: RetryPolicy = Field(default_factory=RetryPolicy)
    max_concurrency: int = Field(default=10, ge=1, le=100)
    tool_filter: list[str] | None = None
    """Regular expressions that a tool's name begins with; None lets all tools in."""
    output_transformer: OutputTransformer | None = Field(default=None, exclude=True)

    @model_validator(mode="before")
    @classmethod
    def _point_elsewhere(cls, given: Any) -> Any:
        if isinstance(given, dict):
            for key in _ELSEWHERE.keys() & cast("dict[str, Any]", given).keys():
                raise ValueError(f"`{key}` is not a setting here: {_ELSEWHERE[key]}")
        return cast(Any, given)

    @field_validator("name")
    @classmethod
    def _is_a_source_name(cls, name: str) -> str:
        if not SOURCE_NAME.fullmatch(name):
            raise ValueError(f"{name!r} must begin with a letter and have only letters, digits, `_` and `-`")
        return name

    @field_validator("connection")
    @classmethod
    def _is_given(cls, connection: str) -> str:
        if not connection.strip():
            raise ValueError("give a command, a URL or a file")
        return connection

    @field_validator("tool_filter")
    @classmethod
    def _patterns_compile(cls, patterns: list[str] | None) -> list[str] | None:
        for pattern in patterns or ():
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
        return patterns

    @model_validator(mode="after")
    def _fits_together(self) -> ExternalToolConfig:
        for key in _NEEDED.get(self.auth_type, ()):
            if key not in self.auth_config:
                raise ValueError(f"auth_type={self.auth_type.name} requires auth_config.{key}")
        if self.transport is TransportType.MCP and self.utcp_mode is not UtcpMode.AUTO:
            raise ValueError("utcp_mode is only for the transports HTTP, UTCP and CLI")
        if self.transport is not TransportType.MCP and self.mcp_transport_mode is not McpTransportMode.AUTO:
            raise ValueError("mcp_transport_mode is only for the transport MCP")
        return self
