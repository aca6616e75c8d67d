"""Models that do anything, people who answer anything, and a new process after each pause."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import spindle
from spindle import Agent, AgentResult, Paused
from spindle.errors import ModelError
from spindle.runs.outcomes import OpenPause

TOOLS = """
from pathlib import Path
from spindle import Context, tool

EFFECTS = Path(__file__).parent.parent / "effects"


@tool
def effect(name: str) -> str:
    with EFFECTS.open("a") as file:
        file.write(name + "\\n")
    return f"did {name}"


@tool(destructive=True)
def delete(name: str) -> str:
    return effect(name)


@tool
def asks(name: str, context: Context) -> str:
    said = context.ask("Which?")
    return effect(f"{name}") + said


@tool
def fails(name: str) -> str:
    effect(name)
    raise ValueError("out of order")


@tool
def long(name: str) -> str:
    return effect(name) + "x" * 500
"""
MOST_TURNS = 12


class Odd:
    """A model that says something else each time, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.asked = 0
        self.called: Counter[str] = Counter()
        """By name, how often a call was asked for that can be made."""

    def __call__(self, _messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.asked += 1
        chance = self._random
        names = [tool.name for tool in info.function_tools]
        parts: list[TextPart | ToolCallPart] = []
        if chance.random() < 0.4:
            parts.append(TextPart("hm"))
        count = chance.choice([0, 1, 1, 2, 4])
        parts += [self._call(names, f"{self.asked}.{index}") for index in range(count)]
        if chance.random() < 0.1:
            parts = []
        return ModelResponse(parts=parts)

    def _call(self, names: list[str], name: str) -> ToolCallPart:
        kind = self._random.choice(["effect", "effect", "delete", "asks", "fails", "long", "ask_user", "odd"])
        if kind == "ask_user":
            return ToolCallPart("ask_user", {"question": f"about {name}?"})
        if kind == "odd":
            odd = [
                ("nothing", {}),
                ("effect", "{"),
                ("effect", {}),
                ("read_more", {"reference": "x", "start": 1}),
            ]
            return ToolCallPart(*self._random.choice(odd))
        if kind in names:
            self.called[name] += 1
        return ToolCallPart(kind, {"name": name})


def answered(pause: OpenPause, chance: random.Random) -> dict[str, object]:
    if chance.random() < 0.2:
        return {"refused": "no"}
    return {"answer": True if pause.kind == "approval" else "this one"}


@pytest.mark.parametrize("seed", range(12))
async def test_whatever_happens_nothing_is_done_twice_and_it_ends(tmp_path: Path, seed: int) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "work.py").write_text(TOOLS)
    (tmp_path / "spindle.toml").write_text("")
    odd, chance = Odd(seed), random.Random(seed + 1000)
    outcome: object = None
    for _ in range(200):
        async with spindle.open(tmp_path) as app:
            limits = {"steps": MOST_TURNS, "result": 100, "failures": 2}
            agent = Agent(app, FunctionModel(odd, model_name="odd"), limits=limits)
            try:
                if not isinstance(outcome, Paused):
                    outcome = await agent.run("go")
                else:
                    pause = chance.choice(outcome.pauses)
                    outcome = await agent.resume(pause.token, **answered(pause, chance))  # type: ignore[arg-type]
            except ModelError as error:
                outcome = error
            if not isinstance(outcome, Paused):
                break
    assert isinstance(outcome, AgentResult | ModelError)
    effects = (
        Counter((tmp_path / "effects").read_text().split()) if (tmp_path / "effects").exists() else Counter()
    )
    assert all(count == 1 for count in effects.values())
    assert effects.keys() <= odd.called.keys()
    if isinstance(outcome, AgentResult):
        assert outcome.usage.requests == odd.asked
        assert outcome.steps == odd.asked
