"""Calls of agents. The agent works at the place of the call, for its principal: its questions, and those of
the calls that it makes, pause whatever called it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spindle.calls.delegation import USAGE, delegated
from spindle.calls.known_secrets import with_known
from spindle.calls.record import clean
from spindle.domain.call import Result
from spindle.domain.json_schema import JsonObject, to_json
from spindle.domain.tool import ToolSpec
from spindle.errors import NotFoundError
from spindle.ports.source import Session
from spindle.remedies import Remedy

if TYPE_CHECKING:
    from spindle.domain.call import Call, Host
    from spindle.domain.tool import Tool
    from spindle.sources.agents.config import AgentsConfig, ServedAgent

TASK = "task"


class AgentsSession(Session):
    """The agents of the settings, ready to be called."""

    per_call_credentials = True

    def __init__(self, config: AgentsConfig) -> None:
        self._agents = config.agents

    async def discover(self) -> list[ToolSpec]:
        return [_spec(name, agent) for name, agent in self._agents.items()]

    async def invoke(self, tool: Tool, call: Call) -> Result:
        name, host = tool.spec.remote_name, call.host
        assert host is not None
        with delegated(tool.name):
            # A run goes on with the settings that it began with.
            given: JsonObject = await host.remember("agent", [name, call.arguments], self._begun(name, call))
            done = await host.work("agent", given)
        answer: JsonObject = done.structured
        meta: JsonObject = {USAGE: {**answer["usage"], "step": answer["step"]}}
        if given.get("schema") is None:
            return replace(Result.of_text(answer["answer"]), meta=meta)
        return replace(Result.of_value(answer["answer"]), meta=meta)

    def _begun(self, name: str, call: Call) -> Any:
        async def make(_: Host) -> JsonObject:
            agent = self._agents.get(name)
            if agent is None:
                raise NotFoundError(f"{call.tool} is no longer defined", remedy=Remedy("sync"))
            return _given(name, agent, call.arguments)

        return make


def _given(name: str, agent: ServedAgent, arguments: JsonObject) -> JsonObject:
    """Returns what the work of an agent is given, as a node of a flow would say it."""
    said = arguments[TASK] if agent.input is None else to_json(arguments).decode()
    given: JsonObject = {
        "name": name,
        # A model, and whoever runs it, is told no secret.
        "task": clean(said, with_known(frozenset())),
        "tools": list(agent.tools) or None,
        "handoffs": list(agent.handoffs),
        "instructions": agent.instructions,
        "approve": list(agent.approve),
        "ask_user": agent.ask_user,
        "limits": agent.limits.model_dump(exclude_none=True),
        "model": agent.model,
        "prices": {model: list(price) for model, price in agent.prices.items()},
        "schema": agent.output,
        **({"code": agent.code} if "code" in agent.model_fields_set else {}),
    }
    return {key: value for key, value in given.items() if value is not None or key == "tools"}


def _spec(name: str, agent: ServedAgent) -> ToolSpec:
    schema = agent.input or {
        "type": "object",
        "properties": {
            TASK: {
                "type": "string",
                "minLength": 1,
                "description": "what to do, with all that has to be known for it",
            }
        },
        "required": [TASK],
        "additionalProperties": False,
    }
    return ToolSpec(name, agent.description, schema, agent.output, place=f"agents.{name}")
