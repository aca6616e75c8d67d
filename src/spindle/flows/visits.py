"""The report of one visit of a node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from spindle.domain.json_schema import JsonObject

if TYPE_CHECKING:
    from spindle.flows.batch_items import BatchItems

MAX_KEPT: Final = 256 * 1024
"""Bytes of a node's inputs or output; of larger ones the history keeps only the size."""


@dataclass(slots=True)
class Report:
    """Facts about one visit of a node, besides the action it chose."""

    tool: str | None = None
    inputs: Any = None
    output: Any = None
    attempts: int = 0
    """Calls made in this visit; none if the run had made the call before."""
    cached: bool = False
    wrote: JsonObject | None = None
    """The shared keys that the nodes of an inline flow have left."""
    usage: JsonObject | None = None
    """The use of a model or an agent: requests, tokens, and cost in US dollars, None if it is unknown."""
    error: JsonObject | None = None
    batch: BatchItems | None = None
    """The items of a batch, and what became of them."""

    def add_usage(self, used: JsonObject) -> None:
        """Counts what one answer has used."""
        before = self.usage or dict.fromkeys(used, 0)
        self.usage = {
            name: None if value is None or before[name] is None else before[name] + value
            for name, value in used.items()
        }
