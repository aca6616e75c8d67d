"""The settings of agents that are tools. Of the limits of a call an agent needs few: it has its own, and so
have the tools that it calls."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from spindle.domain.agent import AgentConfig
from spindle.domain.source import BreakerConfig, RetryConfig, SourceConfig
from spindle.domain.tool import ToolSpec
from spindle.schemas.compiled import schema_problem


class ServedAgent(AgentConfig):
    """One agent. What it leaves out is as `[agent]` says, except its tools: it has those that it names."""

    description: str = Field(min_length=1, description="what it does, for those who choose among tools")
    tools: tuple[str, ...] = Field(default=(), description="patterns over names of tools; none: no tools")
    handoffs: tuple[str, ...] = Field(
        default=(), description="patterns over names of tools whose answer is its own, and ends its work"
    )
    ask_user: bool = Field(default=True, description="true: the model can ask the user")
    input: dict[str, Any] | None = Field(
        default=None, description="the JSON Schema of its arguments; without it, one text: `task`"
    )
    output: dict[str, Any] | None = Field(
        default=None, description="the JSON Schema of its answer; without it, text"
    )

    @field_validator("input", "output")
    @classmethod
    def _is_schema_of_object(cls, given: dict[str, Any] | None) -> dict[str, Any] | None:
        if given is None:
            return None
        if given.get("type") != "object":
            raise ValueError('is the JSON Schema of an object: it has type = "object"')
        if problem := schema_problem(given):
            raise ValueError(f"is no JSON Schema: {problem}")
        return given


class AgentsConfig(SourceConfig):
    """The agents of the workspace, by name."""

    kind: Literal["agents"] = "agents"  # pyright: ignore[reportIncompatibleVariableOverride] - frozen
    agents: dict[str, ServedAgent] = Field(default_factory=dict[str, ServedAgent])
    timeout: float = Field(default=86_400.0, gt=0, description="seconds for a whole task")
    max_concurrency: int = Field(default=1000, ge=1)
    retry: RetryConfig = RetryConfig(attempts=1)
    breaker: BreakerConfig = BreakerConfig(failures=1_000_000_000)

    def is_repeatable(self, spec: ToolSpec) -> bool:
        # What it does are steps, each of which is judged by itself.
        return True
