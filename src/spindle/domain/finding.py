"""Findings in the texts of tools that are new or have changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Self

from spindle.domain.json_schema import JsonObject
from spindle.domain.visible import visible

Gravity = Literal["serious", "note"]
"""Serious: the tool is held until a person accepts it. A note is only shown."""
MAX_REASON: Final = 300


@dataclass(frozen=True, slots=True)
class ToolFinding:
    """A text of a tool that does not describe it, but tells a model what to do, hides something, or makes it
    look like another tool."""

    name: str
    """Of the tool in the catalog; of a source, where the text is what it says of all its tools."""
    rule: str
    reason: str
    gravity: Gravity = "serious"

    @property
    def is_serious(self) -> bool:
        """True if the tool must wait for a person."""
        return self.gravity == "serious"

    @property
    def sentence(self) -> str:
        """The finding, in a sentence without the name of the tool."""
        return f"{self.reason} ({self.rule})"

    def bounded(self) -> Self:
        """Returns the finding as it may be shown and stored, whoever wrote it."""
        reason = " ".join(visible(str(self.reason)).split())
        shown = reason if len(reason) <= MAX_REASON else f"{reason[:MAX_REASON]}…"
        gravity = "note" if self.gravity == "note" else "serious"
        return type(self)(self.name, visible(str(self.rule))[:60], shown, gravity)

    def to_dict(self) -> JsonObject:
        """Returns it as JSON."""
        return {"name": self.name, "rule": self.rule, "reason": self.reason, "gravity": self.gravity}


def serious_names(findings: Sequence[ToolFinding]) -> frozenset[str]:
    """Returns the tools that must wait for a person."""
    return frozenset(item.name for item in findings if item.is_serious)
