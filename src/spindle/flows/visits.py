"""The report of one visit of a node, and what the history keeps of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from spindle.domain.json_schema import JsonObject, from_json, to_json

if TYPE_CHECKING:
    from spindle.flows.batch_items import BatchItems

MAX_KEPT: Final = 256 * 1024
"""Bytes of a node's inputs or output; of larger ones the history keeps only the size."""
MAX_SHORT: Final = MAX_KEPT // 6
"""Characters of a text that has no more bytes than that, however they are written."""
MAX_PLAIN: Final = 16
"""Values of an object that are looked at one by one, in place of writing it as JSON and reading that."""


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


def kept(value: Any) -> Any:
    """Returns a value as the history keeps it: one that is not JSON, or is large, is only described."""
    if value is None or (value.__class__ is str and len(value) <= MAX_SHORT):
        return value
    if value.__class__ is dict and len(value) <= MAX_PLAIN and all(map(_is_plain, value, value.values())):
        return value.copy()
    try:
        data = to_json(value, default=repr)
    except (TypeError, ValueError, RecursionError):
        return f"<{type(value).__name__}>"
    if len(data) > MAX_KEPT:
        return {"$left_out": f"{len(data)} bytes"}
    return from_json(data)


def _is_plain(key: Any, value: Any) -> bool:
    """True for what is certainly JSON, and short: most arguments are."""
    return key.__class__ is str and (
        value is None
        or value.__class__ is bool
        or (value.__class__ is str and len(key) + len(value) <= MAX_SHORT // MAX_PLAIN)
    )
