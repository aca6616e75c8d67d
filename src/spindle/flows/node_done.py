"""The end of a node's work."""

from __future__ import annotations

from typing import Any

from spindle.domain.json_schema import JsonObject
from spindle.domain.records import quick_dataclass


@quick_dataclass(frozen=True, slots=True)
class NodeDone:
    """The end of a node's work that did not fail."""

    value: Any
    action: str | None = None
    wrote: JsonObject | None = None
    """The shared keys that nodes inside it have written."""
    failed: list[JsonObject] | None = None
    """Items of a batch that failed."""
