"""Settings of event tools."""

from __future__ import annotations

from typing import Literal

from pydantic import ByteSize, Field, field_validator, model_validator

from spindle.domain.source import Section, SourceConfig
from spindle.domain.tool import ToolSpec
from spindle.sources.events.cloudevents import Envelope


class ServerSettings(Section):
    """Settings of the workspace for a server that its documents name."""

    url: str | None = Field(default=None, description="where it is, when not where the document says")
    variables: dict[str, str] = Field(
        default_factory=dict[str, str], description="values of the variables in its address"
    )


class EventsConfig(SourceConfig):
    """Settings of a source of kind `events`."""

    kind: Literal["events"] = "events"  # pyright: ignore[reportIncompatibleVariableOverride] - frozen
    path: str | None = None
    """A folder of AsyncAPI documents, or one of them, relative to the workspace."""
    url: str | None = None
    """The address of a document."""
    server: str | None = None
    """The server to use, if a document names several."""
    servers: dict[str, ServerSettings] = Field(default_factory=dict[str, ServerSettings])
    source: str | None = None
    """The `source` of emitted events; by default the document's `id`."""
    envelope: Envelope = "structured"
    publish_timeout: float = Field(
        default=10.0, gt=0, description="seconds in which a server must acknowledge"
    )
    secret: str | None = None
    """Signs the webhooks that are sent, and verifies those that are received."""
    headers: dict[str, str] = Field(default_factory=dict[str, str])
    """Headers for HTTP and WebSocket servers."""
    listen: str | None = None
    """The host and port that receive webhooks, such as `127.0.0.1:8787`."""
    allowed_hosts: tuple[str, ...] = ()
    """Further names under which webhooks may be sent here, such as `hooks.example.com`."""
    allow_private: bool = False
    """True if a remote document may point at this machine or private networks."""
    max_document_size: ByteSize = Field(default=ByteSize(32 * 1024 * 1024), gt=0)

    @field_validator("url")
    @classmethod
    def _is_http(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://", "${")):
            raise ValueError("must begin with http:// or https://; a file is given as `path`")
        return value

    @field_validator("listen")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith("${"):
            host_and_port(value)
        return value

    def is_repeatable(self, spec: ToolSpec) -> bool:
        # Who waited for an event has done nothing yet.
        return spec.metadata.get("action") == "receive" or super().is_repeatable(spec)

    @model_validator(mode="after")
    def _one_place(self) -> EventsConfig:
        if (self.path is None) == (self.url is None):
            raise ValueError("give one of `path` (a folder or a file) and `url`")
        return self


def host_and_port(text: str) -> tuple[str, int]:
    """Splits a text such as `127.0.0.1:8787`; raises ValueError if it is none."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError("must be a host and a port, such as 127.0.0.1:8787")
    return host.strip("[]"), int(port)
