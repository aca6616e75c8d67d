"""One process in which an agent works, for tests that kill it. Says what it does in lines of JSON.

agent_process.py WORKSPACE MODEL run TASK CONTEXT
agent_process.py WORKSPACE MODEL resume TOKEN|RUN CONTEXT
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import spindle
from spindle import Agent, AgentEvent, AgentResult, Paused


def say(what: Any) -> None:
    print(json.dumps(what), flush=True)


def hear(event: AgentEvent) -> None:
    say({"event": event.to_dict()})


async def main(root: str, model: str, how: str, what: str, context: str) -> None:
    async with spindle.open(root) as app:
        given = json.loads(context)
        agent = Agent(app, model, code=given.pop("code", False), context=given)
        if how == "run":
            outcome = await agent.run(what, on_event=hear)
        else:
            outcome = await agent.resume(what, on_event=hear)
        if isinstance(outcome, AgentResult):
            say({"done": outcome.to_dict()})
        elif isinstance(outcome, Paused):
            say({"paused": [pause.to_dict() for pause in outcome.pauses], "run_id": outcome.run_id})


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
