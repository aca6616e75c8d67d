"""Any program of nested and parallel calls, stopped anywhere, ends as if nothing had stopped it."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import spindle
from servers.examples import examples
from spindle import CallOptions, Context, Finished, Paused, tool
from spindle.settings import Settings

LEAVES = st.fixed_dictionaries({"do": st.sampled_from(["effect", "ask", "approve", "fail"])})


def deeper(programs: Any) -> Any:
    parts = st.lists(programs, min_size=1, max_size=3)
    return st.fixed_dictionaries(
        {"do": st.sampled_from(["in turn", "at once", "in a group", "in a thread"]), "parts": parts}
    )


PROGRAMS = st.recursive(LEAVES, deeper, max_leaves=8)


def numbered(program: dict[str, Any], numbers: Any) -> dict[str, Any]:
    parts = [numbered(part, numbers) for part in program.get("parts", ())]
    return {**program, "n": next(numbers), "parts": parts}


def expected(program: dict[str, Any]) -> Any:
    match program["do"]:
        case "effect":
            return f"effect {program['n']}"
        case "ask":
            return f"answer {program['n']}"
        case "approve":
            return True
        case "fail":
            return f"failed {program['n']}"
        case _:
            return [expected(part) for part in program["parts"]]


def effects_of(program: dict[str, Any]) -> list[str]:
    own = [expected(program)] if program["do"] in ("effect", "fail") else []
    return own + [effect for part in program["parts"] for effect in effects_of(part)]


class Interpreter:
    """A program as a tool that calls itself for its parts."""

    def __init__(self) -> None:
        self.effects: Counter[str] = Counter()

    def tools(self) -> list[Any]:
        @tool
        def effect(n: int) -> str:
            self.effects[f"effect {n}"] += 1
            return f"effect {n}"

        @tool
        def fail(n: int) -> str:
            self.effects[f"failed {n}"] += 1
            raise spindle.ToolError(f"failed {n}")

        @tool
        async def play(program: dict[str, Any], context: Context) -> Any:
            parts = [{"program": part} for part in program["parts"]]
            match program["do"]:
                case "effect" | "fail":
                    return (await context.call(program["do"], n=program["n"])).text
                case "ask":
                    answer = context.ask(f"question {program['n']}", int)
                    return f"answer {answer}"
                case "approve":
                    return context.approve(f"question {program['n']}")
                case "in turn":
                    return [(await context.call("play", part)).value for part in parts]
                case "in a thread":
                    return (await context.call("play_in_thread", program=program)).value
                case "in a group":
                    async with asyncio.TaskGroup() as group:
                        tasks = [group.create_task(context.call("play", part)) for part in parts]
                    return [task.result().value for task in tasks]
                case _:
                    done = await asyncio.gather(*(context.call("play", part) for part in parts))
                    return [result.value for result in done]

        @tool
        def play_in_thread(program: dict[str, Any], context: Context) -> Any:
            return [context.call_blocking("play", program=part).value for part in program["parts"]]

        return [effect, fail, play, play_in_thread]


async def execute(program: dict[str, Any], folder: Path) -> tuple[Any, Counter[str]]:
    interpreter = Interpreter()
    chosen = Settings(folder, {"store": ":memory:"}, is_workspace=False)
    async with spindle.open(settings=chosen, tools=interpreter.tools()) as app:
        outcome: Any = await app.run("play", {"program": program}, CallOptions(timeout=60))
        while isinstance(outcome, Paused):
            pause = outcome.pauses[-1]
            answer: Any = True if pause.kind == "approval" else int(pause.message.split()[1])
            outcome = await app.resume(pause.token, answer)
        assert isinstance(outcome, Finished)
        return outcome.result.value, interpreter.effects


@examples(40)
@given(program=PROGRAMS)
def test_a_program_stopped_anywhere_ends_the_same_with_each_effect_once(
    tmp_path: Path, program: dict[str, Any]
) -> None:
    whole = numbered(program, itertools.count())
    result, effects = asyncio.run(execute(whole, tmp_path))
    assert result == expected(whole)
    assert effects == Counter(effects_of(whole))
