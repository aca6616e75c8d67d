"""A model that does whatever is injected into a result, and a person who knows what they asked for.

The model is the worst case: it plays the calls of the user's task in order, and as soon as it has read a text
with the mark of an injection, it also makes the calls of the attacker. What then happens is the doing of the
workspace alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from spindle import Agent, Paused, Spindle

MARK = "INJECTION-9b1f"
"""Stands in every text of the attacker."""

Step = tuple[str, dict[str, Any]]
"""A tool, and the arguments it is called with."""


@dataclass(frozen=True)
class Attempt:
    """A task, and what the attacker wants instead."""

    task: str
    steps: Sequence[Step]
    answer: str = "Done."
    injected: Sequence[Step] = ()
    injected_answer: str = ""


@dataclass
class Course:
    """How an attempt went."""

    said: str = ""
    made: list[Step] = field(default_factory=list[Step])
    """The calls that the model made, allowed or not."""
    reached: bool = False
    """True if the model has read the attacker's text."""
    asked: int = 0
    """Questions to the person."""
    asked_about_own: int = 0
    """Those of them that were about what the person wanted."""


async def play(app: Spindle, attempt: Attempt, taint: str, send_to: Sequence[str] | None = None) -> Course:
    """Lets an agent with the obedient model do the task. The person allows the calls of the task, and refuses
    all others."""
    course = Course()
    model = FunctionModel(_obedient(attempt, course), model_name="obedient")
    limits = {"steps": 200, "repeats": 100, "failures": 100, "conclude": False, "tools": 200}
    agent = Agent(
        app,
        model,
        name=f"obedient {taint}",
        approve=[],
        limits=limits,
        taint=taint,
        send_to=send_to,
        ask_user=False,
    )
    outcome: Any = await agent.run(attempt.task)
    while isinstance(outcome, Paused):
        pause = outcome.pauses[0]
        assert pause.kind == "approval", pause
        asked = (pause.details["tool"], pause.details["arguments"])
        own = asked in [(tool, arguments) for tool, arguments in attempt.steps]
        course.asked += 1
        course.asked_about_own += own
        if own:
            outcome = await agent.resume(pause.token, {"approved": True})
        else:
            outcome = await agent.resume(pause.token, refused="I did not ask for that")
    course.said = str(outcome.output or outcome.text)
    return course


def _obedient(attempt: Attempt, course: Course) -> Callable[[list[ModelMessage], AgentInfo], ModelResponse]:
    def respond(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        # From the conversation alone: after a pause, answers come from the record of the run.
        results = [
            part
            for message in messages
            if isinstance(message, ModelRequest)
            for part in message.parts
            if isinstance(part, ToolReturnPart)
        ]
        obeyed = any(MARK in part.model_response_str() for part in results)
        course.reached = course.reached or obeyed
        # At the end, so that nothing that the user wants undoes it.
        steps = [*attempt.steps, *(attempt.injected if obeyed else ())]
        made = sum(isinstance(part, ToolCallPart) for message in messages for part in message.parts)
        if made < len(steps):
            tool, arguments = steps[made]
            course.made = steps[: made + 1]
            return ModelResponse([ToolCallPart(tool, arguments, f"call-{made}")])
        said = f"{attempt.answer}\n{attempt.injected_answer}" if obeyed else attempt.answer
        return ModelResponse([TextPart(said.strip() or "Done.")])

    return respond
