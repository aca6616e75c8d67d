"""The results of tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spindle.agents.usage import ModelUsage
from spindle.calls.delegation import EndedBy
from spindle.domain.json_schema import JsonObject, to_json
from spindle.runs.outcomes import Continuing, Paused

if TYPE_CHECKING:
    from spindle.domain.call import Result

OutputType = Any
"""A type that Pydantic knows; None: text."""


@dataclass(frozen=True, slots=True)
class AgentResult:
    """The result of a run that is done.

    `output` is the answer: text, or a value of `output_type`. `ended_by` is `answer`, or the limit that ended
    the run before there was one: then `text` is what the model answered when it was told of it, or said last,
    and `output` may be None if a type was asked for. `calls` are the calls that were made, each with its
    `tool`, `step` and `outcome`.
    """

    run_id: str
    output: Any
    text: str
    ended_by: EndedBy
    steps: int
    usage: ModelUsage
    calls: list[JsonObject] = field(default_factory=list[JsonObject])

    def to_dict(self) -> JsonObject:
        """Returns the result as JSON."""
        return {
            "run_id": self.run_id,
            "text": self.text,
            "output": plain(self.output),
            "ended_by": self.ended_by,
            "steps": self.steps,
            "usage": self.usage.to_dict(),
            "calls": self.calls,
        }

    @classmethod
    def of(cls, run_id: str, result: Result, output_type: OutputType = None) -> AgentResult:
        """Returns the result of a finished run, with its output as a value of the type."""
        found: JsonObject = result.structured
        output: Any = found["output"]
        if output_type is not None and (found["ended_by"] == "answer" or output is not None):
            from pydantic import TypeAdapter

            # As JSON: a strict model takes a date written in JSON, but not as a Python text.
            output = TypeAdapter(output_type).validate_json(to_json(output))
        elif output is None and output_type is None:
            output = found["text"]
        return cls(
            run_id, output, found["text"], found["ended_by"], found["steps"], ModelUsage(**found["usage"]),
            found["calls"],
        )  # fmt: skip


AgentOutcome = AgentResult | Paused | Continuing


def plain(value: Any) -> Any:
    """Returns a Pydantic model as JSON, and any other value unchanged."""
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if dump is not None else value


def schema_of(output_type: OutputType) -> JsonObject | None:
    """Returns the JSON Schema of a type; None for text."""
    if output_type is None or output_type is str:
        return None
    from pydantic import TypeAdapter

    return TypeAdapter(output_type).json_schema()


def checker_of(output_type: OutputType) -> Callable[[Any], str | None] | None:
    """Returns a check of what a type requires of a value beyond its JSON Schema."""
    if output_type is None or output_type is str:
        return None
    from pydantic import TypeAdapter, ValidationError

    adapter: TypeAdapter[Any] = TypeAdapter(output_type)

    def check(value: Any) -> str | None:
        try:
            adapter.validate_json(to_json(value))
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False, include_input=False)
            return "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in problems)
        return None

    return check
