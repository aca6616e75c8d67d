"""Tasks with what is expected of an agent, and the judgement of what it did."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from spindle.documents.places import TextError
from spindle.documents.text import read
from spindle.domain.json_schema import JsonObject, is_array, is_object
from spindle.errors import ConfigurationError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic_core import ErrorDetails

    from spindle.agents.events import AgentEvent

MAX_TASKS = 10_000


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ExpectedCall(_Part):
    """A call that the agent is expected to make, with at least these arguments."""

    tool: str = Field(min_length=1)
    arguments: dict[str, Any] = Field(default_factory=dict[str, Any])


class Expected(_Part):
    """The outcome that is expected of a task. What is not named may be as it likes."""

    calls: tuple[ExpectedCall, ...] = ()
    """Calls in this order; others may come between them."""
    never: tuple[str, ...] = ()
    """Patterns of tools that must not be called."""
    contains: tuple[str, ...] = ()
    """Texts in the answer, in any case of letters."""
    matches: str | None = None
    """A pattern that is found in the answer."""

    @field_validator("calls", mode="before")
    @classmethod
    def _tools_by_name(cls, given: Any) -> Any:
        if not is_array(given):
            return given
        return [{"tool": item} if isinstance(item, str) else item for item in given]

    @field_validator("never", "contains", mode="before")
    @classmethod
    def _one_is_a_list(cls, given: Any) -> Any:
        return (given,) if isinstance(given, str) else given

    @field_validator("matches")
    @classmethod
    def _compiles(cls, pattern: str | None) -> str | None:
        try:
            re.compile(pattern or "")
        except re.error as error:
            raise ValueError(f"is no pattern: {error}") from None
        return pattern


class EvalTask(_Part):
    """A task for an agent."""

    task: str = Field(min_length=1)
    name: str = ""
    expect: Expected = Expected()

    @property
    def title(self) -> str:
        """The name, or the beginning of the task."""
        return self.name or (self.task if len(self.task) <= 60 else f"{self.task[:59]}…")


class Evaluation(_Part):
    """A file of tasks. What it does not say of the agent is as in `[agent]`."""

    tasks: tuple[EvalTask, ...] = Field(min_length=1, max_length=MAX_TASKS)
    model: str | None = None
    instructions: str | None = None
    tools: tuple[str, ...] = ()
    repeat: int = Field(default=1, ge=1, le=1000)


@dataclass(slots=True)
class Trial:
    """One try of an agent at a task, and how it ended."""

    task: EvalTask
    number: int
    calls: list[tuple[str, JsonObject]] = field(default_factory=list[tuple[str, JsonObject]])
    answer: str = ""
    problems: list[str] = field(default_factory=list[str])
    """Says in words how it is not as expected."""
    seconds: float = 0.0
    requests: int = 0
    tokens: int = 0

    def hear(self, event: AgentEvent) -> None:
        """Takes note of the calls that the model asks for."""
        if event.kind == "tool_call" and event.tool is not None:
            self.calls.append((event.tool, event.arguments or {}))

    def judge(self, answer: str) -> None:
        """Compares what was done with what is expected."""
        self.answer = answer
        expected = self.task.expect
        self.problems += _missing(expected.calls, self.calls)
        for pattern in expected.never:
            made = sorted({tool for tool, _ in self.calls if fnmatch.fnmatchcase(tool, pattern)})
            self.problems += [f"{tool} was called" for tool in made]
        for text in expected.contains:
            if text.casefold() not in answer.casefold():
                self.problems.append(f"the answer does not contain {text!r}")
        if expected.matches is not None and not re.search(expected.matches, answer):
            self.problems.append(f"the answer does not match {expected.matches!r}")

    def to_dict(self) -> JsonObject:
        """Returns it as JSON."""
        return {
            "task": self.task.title,
            "trial": self.number,
            "passed": not self.problems,
            "problems": self.problems,
            "answer": self.answer,
            "calls": [{"tool": tool, "arguments": arguments} for tool, arguments in self.calls],
            "seconds": round(self.seconds, 3),
            "requests": self.requests,
            "tokens": self.tokens,
        }


def read_evaluation(path: Path) -> Evaluation:
    """Reads a file of tasks. Raises ConfigurationError with the line of a mistake."""
    try:
        found = read(path.read_text("utf-8"), "yaml")
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path} is not UTF-8") from None
    except TextError as error:
        line = f":{error.line}" if error.line is not None else ""
        raise ConfigurationError(f"{path}{line}: {error.problem}", hint=error.hint) from None
    try:
        return Evaluation.model_validate(found.value)
    except ValidationError as error:
        marks = found.find_marks()
        problems = error.errors(include_url=False)
        if len(problems) > 1:  # where a task has a mistake, it is not counted
            problems = [item for item in problems if item["type"] != "too_short"]
        lines: list[str] = []
        for item in problems:
            place = tuple(item["loc"])
            while place and place not in marks:
                place = place[:-1]
            line = f":{marks[place].line}" if place in marks else ""
            name = ".".join(map(str, item["loc"])) or "the file"
            lines.append(f"{path}{line}: {name}: {_in_words(item)}")
        raise ConfigurationError("\n".join(lines)) from None


def _in_words(item: ErrorDetails) -> str:
    kind, name = item["type"], str(item["loc"][-1]) if item["loc"] else ""
    if kind == "extra_forbidden":
        # By how deep it is: `tasks.0.task`, `tasks.0.expect.calls`, `tasks.0.expect.calls.0.tool`.
        parts: dict[int, type[_Part]] = {1: Evaluation, 3: EvalTask, 4: Expected}
        known = list(parts.get(len(item["loc"]), ExpectedCall).model_fields)
        meant = did_you_mean(name, known, f"known are {', '.join(known)}")
        return f"this is not known; {meant}"
    if kind == "too_short":
        return "there must be at least one"
    if kind in ("model_type", "dict_type"):
        return f"this must have names and values{'' if name else ', as in `tasks:`'}"
    message = item["msg"].removeprefix("Value error, ")
    return "this is missing" if kind == "missing" else message[:1].lower() + message[1:]


def _missing(expected: Sequence[ExpectedCall], made: Sequence[tuple[str, JsonObject]]) -> list[str]:
    """The expected calls that were not made in their order."""
    problems: list[str] = []
    at = 0
    for wanted in expected:
        fitting = (
            place
            for place in range(at, len(made))
            if made[place][0] == wanted.tool and _holds(made[place][1], wanted.arguments)
        )
        place = next(fitting, None)
        if place is None:
            others = [arguments for tool, arguments in made if tool == wanted.tool]
            said = f"{wanted.tool} was not called" + (f" with {wanted.arguments}" if wanted.arguments else "")
            if others:
                said += f", but with {others[-1]}" if wanted.arguments else " after the one before it"
            problems.append(said)
        else:
            at = place + 1
    return problems


def _holds(made: Any, wanted: Any) -> bool:
    """True if a value has all that is wanted of it."""
    if is_object(made) and is_object(wanted):
        return all(key in made and _holds(made[key], value) for key, value in wanted.items())
    return bool(made == wanted)
