"""A model's answer and an agent's task as steps of other work, such as nodes of a flow.

A question to a model is an agent's task without tools: it has the same limits, the same repairs of answers
that do not fit, and the same record of every answer, so that nothing is asked and paid for twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from spindle.agents.context import ContextSettings
from spindle.agents.definition import DESTRUCTIVE, AgentDefinition, Job
from spindle.agents.limits import Limits
from spindle.agents.usage import read_prices
from spindle.domain.call import Result
from spindle.domain.json_schema import JsonObject
from spindle.errors import ConfigurationError, ModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pydantic_ai.models import Model

    from spindle.calls.host import CallHost
    from spindle.calls.options import CallOptions
    from spindle.domain.agent import AgentConfig

REPAIRS = 1
"""Answers that do not fit their schema and are sent back, where nothing else is said."""
NO_ANSWER = {"conclude": False}
"""A step that reaches a limit fails, so that no last answer is asked for."""


class Agents(Protocol):
    """The part of a workspace's agents that a step needs."""

    async def work(self, given: JsonObject, host: CallHost, options: CallOptions) -> Result: ...

    async def models_of(self, agent: AgentDefinition) -> Sequence[Model]: ...


@dataclass(frozen=True, slots=True)
class ModelStep:
    """Asks a model: `given` has the `prompt`, and may have `system`, the `schema` of the answer, `model`,
    `limits` and `settings` of the model. The result has the `answer` and the `usage`."""

    agents: Agents
    config: Callable[[], AgentConfig]

    async def require(self, given: JsonObject) -> None:
        await self.agents.models_of(self._agent(given))

    async def __call__(self, given: JsonObject, host: CallHost, options: CallOptions) -> Result:
        job = Job(host.step_id or "", self._agent(given), given["prompt"], given.get("schema"))
        return _answered(await self.agents.work(job.to_dict(), host, options), job.run, "the model")

    def _agent(self, given: JsonObject) -> AgentDefinition:
        config = self.config()
        limits = {**_limits(config), "repairs": REPAIRS, **NO_ANSWER, **given.get("limits", {})}
        return AgentDefinition(
            "model", _model(given, config), given.get("system", ""), None, (), False, Limits.of(limits),
            read_prices(config.prices), given.get("settings", {}),
            context=_context(config), others=_others(given, config),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class AgentStep:
    """Lets an agent work: `given` has the `task` and the patterns of its `tools` (None: it has none), and may
    have its `name`, `instructions`, `approve`, `ask_user`, `handoffs`, `prices`, and what a question to a
    model may have."""

    agents: Agents
    config: Callable[[], AgentConfig]

    async def require(self, given: JsonObject) -> None:
        await self.agents.models_of(self._agent(given))

    async def __call__(self, given: JsonObject, host: CallHost, options: CallOptions) -> Result:
        job = Job(host.step_id or "", self._agent(given), given["task"], given.get("schema"))
        return _answered(await self.agents.work(job.to_dict(), host, options), job.run, "the agent")

    def _agent(self, given: JsonObject) -> AgentDefinition:
        config, tools = self.config(), given["tools"]
        return AgentDefinition(
            given.get("name", "agent"), _model(given, config), given.get("instructions", ""),
            None if tools is None else tuple(tools), tuple(given.get("approve", (DESTRUCTIVE,))),
            given.get("ask_user", True),
            Limits.of({**_limits(config), **NO_ANSWER, **given.get("limits", {})}),
            read_prices({**config.prices, **given.get("prices", {})}), given.get("settings", {}),
            tuple(given.get("handoffs", ())), _context(config), _others(given, config),
            policy=config.policy, code=given.get("code", config.code),
        )  # fmt: skip


def _model(given: JsonObject, config: AgentConfig) -> str:
    name = given.get("model") or config.model
    if name is None:
        raise ConfigurationError(
            "no model is chosen", hint="set `model` in [agent] of spindle.toml, or in the node"
        )
    return name


def _others(given: JsonObject, config: AgentConfig) -> tuple[str, ...]:
    return () if given.get("model") else config.others


def _context(config: AgentConfig) -> ContextSettings:
    return ContextSettings.of(config.context.model_dump(exclude_none=True))


def _limits(config: AgentConfig) -> dict[str, Any]:
    return config.limits.model_dump(exclude_none=True)


def _answered(result: Result, step: str, who: str) -> Result:
    """Returns the answer, its cost and its step. Raises ModelError if a limit came before there was one."""
    found: JsonObject = result.structured
    if found["ended_by"] != "answer":
        raise ModelError(
            f"{who} reached the limit `{found['ended_by']}` before there was an answer",
            hint="raise it, or ask for less",
            details={key: found[key] for key in ("text", "steps", "calls", "usage")},
        )
    answer = found["text"] if found["output"] is None else found["output"]
    return Result.of_value({"answer": answer, "usage": found["usage"], "step": step}, found["text"])
