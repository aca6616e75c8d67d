"""The settings of agents: the `[agent]` table."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from spindle.domain.flow_of_trust import Taint, TrustPolicy
from spindle.domain.json_schema import is_array, is_object


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
    code_seconds: float | None = Field(default=None, gt=0, description="seconds that a program computes")
    code_memory: int | None = Field(default=None, gt=0, description="megabytes of a program")
    code_calls: int | None = Field(default=None, gt=0, description="calls that a program makes")
    conclude: bool | None = Field(default=None, description="a last answer at a limit that ends the run")


class AgentContext(BaseModel):
    """The room that an agent's conversation has, as in `spindle.agents.context`, whose defaults apply."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tokens: int | None = Field(default=None, gt=0, description="of a request, before parts are left out")
    compact: Literal["drop", "summarise", "off"] | None = Field(
        default=None, description="what happens to older parts"
    )
    keep: int | None = Field(default=None, gt=0, description="the newest turns, which stay as they are")
    pin: tuple[str, ...] | None = Field(default=None, description="patterns of tools whose results stay")
    cache: bool | None = Field(default=None, description="mark what a provider may cache")


class AgentConfig(BaseModel):
    """The settings of the workspace's agent."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str | None = Field(default=None, min_length=1, description="`provider:name`")
    models: tuple[str, ...] = Field(
        default=(), description="models, each asked where the one before it fails; instead of `model`"
    )
    instructions: str = Field(default="", description="instructions for the model, before every task")
    tools: tuple[str, ...] = Field(default=(), description="patterns over names of tools; none: all")
    approve: tuple[str, ...] = Field(
        default=("destructive",), description="patterns of tools whose calls a person must allow"
    )
    taint: Taint = Field(
        default="ask",
        description="calls that send, write or spend after words of others entered the run:"
        " `ask` a person, `block` them, or `off`",
    )
    send_to: tuple[str, ...] | None = Field(
        default=None,
        description="patterns of hosts and mail addresses, all that calls may name; left out: any",
    )
    limits: AgentLimits = AgentLimits()
    context: AgentContext = AgentContext()
    memory: bool = Field(default=False, description="the model can keep facts for later runs")
    code: bool = Field(default=False, description="the model calls tools by programs; needs the extra `code`")
    prices: dict[str, tuple[float, float]] = Field(
        default_factory=dict[str, tuple[float, float]],
        description="by model, US dollars for a million tokens of input and of output",
    )

    @model_validator(mode="before")
    @classmethod
    def _first_of_models(cls, given: Any) -> Any:
        if not is_object(given) or not is_array(models := given.get("models")) or not models:
            return given
        if given.get("model") not in (None, models[0]):
            raise ValueError("give either `model` or `models`, not both")
        return {**given, "model": models[0]}

    @property
    def others(self) -> tuple[str, ...]:
        """The models that are asked where the first one fails."""
        return self.models[1:] if self.models[:1] == (self.model,) else ()

    @property
    def policy(self) -> TrustPolicy:
        """The flow-of-trust policy of the workspace's agents."""
        return TrustPolicy(self.taint, self.send_to)
