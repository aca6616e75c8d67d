"""Calls as lines of a list."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from spindle.domain.call import CallRecord

MAX_EDITED: Final = 1_000_000
"""Characters of JSON that a page offers for editing."""


@dataclass(frozen=True, slots=True)
class CallLine:
    """One call."""

    key: str
    tool: str
    principal: str
    outcome: str
    started_at: float
    duration: float
    said: str
    """The message of its error, or the beginning of its arguments."""

    @property
    def failed(self) -> bool:
        """True if it came to nothing."""
        return self.outcome not in ("ok", "cached")


def call_line(record: CallRecord) -> CallLine:
    """Returns a record as a line."""
    message = (record.error or {}).get("message")
    said = (
        str(message) if message else (shown_json(record.arguments, indent=None) if record.arguments else "")
    )
    return CallLine(
        record.key,
        record.tool,
        record.principal,
        record.outcome,
        record.started_at,
        record.duration,
        said[:400],
    )


def is_editable(value: Any) -> bool:
    """True if a page may carry a value whole, for its form."""
    return len(shown_json(value, indent=None)) <= MAX_EDITED


def shown_json(value: Any, indent: int | None = 2) -> str:
    """Returns a value as JSON for people."""
    return json.dumps(value, ensure_ascii=False, indent=indent, default=str)
