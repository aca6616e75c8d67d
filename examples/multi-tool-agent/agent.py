"""An agent with tools of four kinds: `python agent.py "Find an hour for Ann and Bob, and invite them"`.

It picks tools and calls several at once. An invitation waits until you allow it.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import spindle
from spindle import Agent, AgentEvent, AgentResult, Paused

TASK = (
    "Find an hour at which Ann and Bob are free this Friday, say what time that is in Tokyo, and invite them."
)


async def work(task: str, folder: Path = Path(__file__).parent) -> AgentResult:
    async with spindle.open(folder) as app:
        await app.sync()  # asks the sources for their tools; later runs find them in the store
        config = app.settings.agent()
        agent = Agent(
            app,
            config.model,
            instructions=config.instructions,
            approve=config.approve,
            limits=config.limits.model_dump(exclude_none=True),
        )
        outcome = await agent.run(task, on_event=show)
        # A run that waits for a person is stored: another process could go on with it as well.
        while isinstance(outcome, Paused):
            for pause in outcome.pauses:
                outcome = await agent.resume(pause.token, asked(pause), on_event=show)
        return outcome


def asked(pause: spindle.OpenPause) -> object:
    """The answer of the person at the terminal."""
    print(f"\n{pause.message}")
    if pause.kind == "approval":
        print(f"  {pause.details['arguments']}")
        return input("approve? [y/N] ").lower() in ("y", "yes")
    return input("answer: ")


def show(event: AgentEvent) -> None:
    if event.kind == "tool_call":
        print(f"→ {event.tool} {event.arguments}")


if __name__ == "__main__":
    done = asyncio.run(work(" ".join(sys.argv[1:]) or TASK))
    print(f"\n{done.output}\n({done.steps} answers of the model, {done.usage.tokens} tokens)")
