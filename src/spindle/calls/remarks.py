"""Remarks on calls that succeeded though something about them is odd."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from spindle.calls.record import hide_secrets
from spindle.domain.bounded import BoundedMap

if TYPE_CHECKING:
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.tool import Tool
    from spindle.errors import SpindleError
    from spindle.ports.source import Note


class Remarks:
    """Notes what would have been an error under stricter settings, once for each tool and kind of error."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._noted: BoundedMap[tuple[str, str], None] = BoundedMap(10_000)

    def of(self, error: SpindleError, tool: Tool, secrets: Collection[str]) -> JsonObject:
        """Returns the remark for the record of a call."""
        hide_secrets(error, frozenset(secrets))
        key = (tool.fingerprint, error.category)
        if key not in self._noted:
            self._noted[key] = None
            self._note(error.message)
        return error.to_dict()
