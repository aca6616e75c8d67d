"""Settings of the source of mods."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from spindle.domain.source import SourceConfig


class ModsConfig(SourceConfig):
    """Settings of a source of kind `mods`."""

    kind: Literal["mods"] = "mods"  # pyright: ignore[reportIncompatibleVariableOverride] - frozen
    path: str | None = None
    """A folder of Python files, relative to the workspace."""
    mods: dict[str, dict[str, Any]] = Field(default_factory=dict[str, dict[str, Any]])
    """The settings of each mod, by its name."""
