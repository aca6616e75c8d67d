"""The settings of a folder of flows. A flow needs few limits of its own: the tools that it calls have
theirs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from spindle.domain.source import BreakerConfig, RetryConfig, SourceConfig
from spindle.domain.tool import ToolSpec


class FlowsConfig(SourceConfig):
    """The settings of a folder of flows."""

    kind: Literal["flows"] = "flows"  # pyright: ignore[reportIncompatibleVariableOverride] - frozen
    path: str = "flows"
    """A folder of flows, relative to the workspace."""
    timeout: float = Field(default=86_400.0, gt=0, description="seconds for a whole flow")
    max_concurrency: int = Field(default=1000, ge=1)
    retry: RetryConfig = RetryConfig(attempts=1)
    breaker: BreakerConfig = BreakerConfig(failures=1_000_000_000)
    check_results: bool | Literal["note"] = "note"

    def is_repeatable(self, spec: ToolSpec) -> bool:
        # What it does are steps and nodes, each of which is judged by itself.
        return True
