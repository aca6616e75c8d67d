"""The agent in a program: `python agent.py "a task"`."""

import asyncio
import sys
from pathlib import Path

import spindle
from spindle import Agent, AgentEvent, Paused


async def main(task: str) -> None:
    """Gives the agent a task, and asks the person where one is needed."""
    async with spindle.open(Path(__file__).parent) as app:
        config = app.settings.agent()
        agent = Agent(
            app,
            config.model,
            instructions=config.instructions,
            tools=config.tools,
            approve=config.approve,
            limits=config.limits.model_dump(exclude_none=True),
        )
        outcome = await agent.run(task, on_event=show)
        while isinstance(outcome, Paused):
            pause = outcome.pauses[0]
            print(f"{pause.message} {pause.details}")
            outcome = await agent.resume(pause.token, asked(pause.kind), on_event=show)
        print(outcome.output)


def asked(kind: str) -> object:
    """The answer of the person at the terminal."""
    if kind == "approval":
        return input("approve? [y/N] ").lower() in ("y", "yes")
    return input("answer: ")


def show(event: AgentEvent) -> None:
    """Shows each call of a tool."""
    if event.kind == "tool_call":
        print(f"→ {event.tool}", file=sys.stderr)


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "What is in my notes?"))
