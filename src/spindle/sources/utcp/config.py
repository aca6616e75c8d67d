"""Settings of a UTCP manual."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field, field_validator

from spindle.errors import suggest
from spindle.sources.api_config import DocumentConfig

PROTOCOLS: Final = ("http", "sse", "streamable_http", "websocket", "text", "file", "cli")
"""The kinds of call templates that can be called."""
FROM_URL: Final = ("http", "sse", "streamable_http", "text")
FROM_FILE: Final = (*FROM_URL, "websocket", "file")
"""The protocols of a manual's tools, unless the settings say otherwise. Programs are never among them."""


class UtcpConfig(DocumentConfig):
    """The settings of a source of kind utcp. Its document is a manual, a call template for one, or an OpenAPI
    document."""

    kind: Literal["utcp"] = "utcp"  # pyright: ignore[reportIncompatibleVariableOverride] - frozen
    utcp_mode: Literal["auto", "manual_url", "base_url"] = "auto"
    """`manual_url`: nothing but a manual, at this very address; `base_url`: one at the usual places below it;
    `auto`: whatever is at the address, else at the usual places."""
    variables: dict[str, str] = Field(default_factory=dict[str, str])
    """Values for the variables of call templates, by their names with or without the manual's."""
    allowed_protocols: tuple[str, ...] = ()
    allow_insecure: bool = False
    """True if plain http and ws may be used with other machines too."""

    @field_validator("utcp_mode", mode="before")
    @classmethod
    def _by_its_name(cls, value: Any) -> Any:
        return "manual_url" if value == "manual" else value  # its name before there was another's for it

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
