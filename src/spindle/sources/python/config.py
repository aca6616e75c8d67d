"""Settings of a source of Python functions."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from spindle.domain.source import SourceConfig


class PythonConfig(SourceConfig):
    """Settings of a source of kind `python`."""

    kind: Literal["python"] = "python"  # pyright: ignore[reportIncompatibleVariableOverride] - frozen
    path: str | None = None
    """A folder of Python files, relative to the workspace."""
    module: str | None = None
    """An importable module."""

    @model_validator(mode="after")
    def _one_place(self) -> PythonConfig:
        if (self.path is None) == (self.module is None):
            raise ValueError("give either `path` (a folder) or `module` (an importable one)")
        return self
