"""The settings of agents: the `[agent]` table."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class AgentLimits(BaseModel):
    """The limits of an agent, as in `spindle.Limits`, whose defaults apply to those that are left out."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    steps: int | None = Field(default=None, gt=0, description="answers of the model")
    time: float | None = Field(default=None, gt=0, description="seconds of work")
    tokens: int | None = Field(default=None, gt=0, description="of input and output together")
    cost: float | None = Field(default=None, gt=0, description="US dollars")
    parallel: int | None = Field(default=None, gt=0, description="calls at the same time")
    tools: int | None = Field(default=None, gt=0, description="tools shown to the model at once")
    result: int | None = Field(default=None, gt=0, description="characters of a result before it is cut")
    repairs: int | None = Field(default=None, gt=0, description="useless answers in a row")
    failures: int | None = Field(default=None, gt=0, description="failures of a tool in a row")
    repeats: int | None = Field(default=None, gt=0, description="the same call in a row")
    request: float | None = Field(default=None, gt=0, description="seconds for one answer of the model")


class AgentConfig(BaseModel):
    """The settings of the workspace's agent."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str | None = Field(default=None, min_length=1, description="`provider:name`")
    instructions: str = Field(default="", description="instructions for the model, before every task")
    tools: tuple[str, ...] = Field(default=(), description="patterns over names of tools; none: all")
    approve: tuple[str, ...] = Field(
        default=("destructive",), description="patterns of tools whose calls a person must allow"
    )
    limits: AgentLimits = AgentLimits()
    prices: dict[str, tuple[float, float]] = Field(
        default_factory=dict[str, tuple[float, float]],
        description="by model, US dollars for a million tokens of input and of output",
    )
