"""The failure of a Python tool."""

from __future__ import annotations

from dataclasses import dataclass

from spindle.domain.json_schema import JsonObject
from spindle.domain.records import fields_of


@dataclass(frozen=True, slots=True)
class ToolFailure:
    """The place where a Python tool failed: the last frame in the workspace, and the whole traceback. It is
    for whoever runs the workspace; clients and models are never sent it."""

    file: str
    line: int
    function: str
    code: str
    """The line of source."""
    traceback: str

    def to_dict(self) -> JsonObject:
        """Returns the failure as JSON."""
        return fields_of(self)
