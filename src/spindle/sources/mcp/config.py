"""Settings of an MCP server."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from spindle.domain.call import KeyPlace
from spindle.domain.source import SourceConfig, WebAddress, Words


class McpConfig(SourceConfig):
    """Settings of a source of kind `mcp`."""

    key_places: ClassVar[frozenset[KeyPlace]] = frozenset({"meta", "parameter"})

    kind: Literal["mcp"] = "mcp"  # pyright: ignore[reportIncompatibleVariableOverride] - frozen
    command: Words = ()
    """The program and its arguments: a list, or one string that is split as a shell would."""
    args: tuple[str, ...] = ()
    """Further arguments, for those who keep them apart from the program."""
    cwd: str | None = None
    url: WebAddress | None = None
    transport: Literal["auto", "stdio", "http", "sse"] = "auto"
    protocol: Literal["auto", "handshake", "2026-07-28"] = "auto"
    """The era of the protocol to speak; `auto` detects it."""
    headers: dict[str, str] = Field(default_factory=dict[str, str])
    answers: tuple[Literal["elicitation", "sampling", "roots"], ...] = Field(
        default=("elicitation",), description="what the server may ask of the callers of its tools"
    )

    sessions: Literal["auto", "shared", "principal", "client"] = Field(
        default="auto",
        description="whose a session with a server of the handshake era is: everybody's, one for each"
        " principal, or for each client; auto: a client's own where it can be asked something, watches a"
        " resource or sets a log level",
    )

    @model_validator(mode="after")
    def _one_way_in(self) -> McpConfig:
        if bool(self.command) == bool(self.url):
            raise ValueError("give either `command` (a program to start) or `url` (a server to reach)")
        if self.command and self.transport in ("http", "sse"):
            raise ValueError(f"transport {self.transport!r} goes with `url`, not with `command`")
        if self.url and self.transport == "stdio":
            raise ValueError("transport 'stdio' goes with `command`, not with `url`")
        return self
