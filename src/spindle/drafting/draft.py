"""A drafted flow, and the values to run it with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spindle.agents.usage import ModelUsage
from spindle.flows.signature import input_schema

if TYPE_CHECKING:
    from spindle.domain.json_schema import JsonObject
    from spindle.flows.definition import FlowDefinition
    from spindle.flows.problems import Problem


@dataclass(frozen=True, slots=True)
class Draft:
    """A flow that fits words and the catalog."""

    words: str
    definition: FlowDefinition
    problems: tuple[Problem, ...] = ()
    """Warnings of `check`. A flow with errors is never returned."""
    inputs: JsonObject = field(default_factory=dict[str, Any])
    """Values for its inputs: those that were given, and those found in the words."""
    tools: tuple[str, ...] = ()
    """The tools that the model could choose from."""
    from_saved: str | None = None
    """The file of the saved flow that fits the words; None if the flow was written now."""
    doubts: tuple[str, ...] = ()
    """Parts of the words of which no rule knows what they mean for the saved flow. With doubts it does not
    run before somebody has seen it; a model settles them."""
    usage: ModelUsage = field(default_factory=ModelUsage)

    @property
    def missing(self) -> tuple[str, ...]:
        """The required inputs that have no value."""
        required: list[str] = input_schema(dict(self.definition.inputs)).get("required", [])
        return tuple(name for name in required if name not in self.inputs)

    def to_dict(self) -> JsonObject:
        from spindle.flows.text.writing import to_document

        return {
            "words": self.words,
            "flow": to_document(self.definition),
            "problems": [problem.to_dict() for problem in self.problems],
            "inputs": dict(self.inputs),
            "missing": list(self.missing),
            "from_saved": self.from_saved,
            "doubts": list(self.doubts),
            "usage": self.usage.to_dict(),
        }
