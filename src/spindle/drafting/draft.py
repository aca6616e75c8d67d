"""What comes of words: a flow that fits the catalog, and what it is to be run with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spindle.agents.usage import ModelUsage
from spindle.flows.build import input_schema

if TYPE_CHECKING:
    from spindle.domain.json_schema import JsonObject
    from spindle.flows.definition import FlowDefinition
    from spindle.flows.problems import Problem


@dataclass(frozen=True, slots=True)
class Draft:
    words: str
    definition: FlowDefinition
    problems: tuple[Problem, ...] = ()
    """Warnings of `check`. One with errors is not given to anybody."""
    inputs: JsonObject = field(default_factory=dict[str, Any])
    """Values for its inputs: those that were given, and those that the words hold."""
    tools: tuple[str, ...] = ()
    """What the model could choose from."""
    from_saved: str | None = None
    """The file of a saved flow that fits the words, so that none had to be written."""
    usage: ModelUsage = field(default_factory=ModelUsage)

    @property
    def missing(self) -> tuple[str, ...]:
        """Inputs that it cannot be run without."""
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
            "usage": self.usage.to_dict(),
        }
