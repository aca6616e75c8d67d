"""Errors as actions: which edge a failed node takes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from spindle.domain.json_schema import JsonObject, is_object
from spindle.errors import SpindleError

ERROR = "error"

_ACTIONS = {
    "rate_limited": "rate_limited",
    "auth": "auth_failed",
    "permission": "auth_failed",
    "not_found": "resource_missing",
    "timeout": "timeout",
    "connection": "server_error",
    "server": "server_error",
}
_HOPELESS = frozenset(
    {"invalid_arguments", "not_found", "permission", "auth", "configuration", "cancelled", "flow", "store"}
)


@dataclass(frozen=True, slots=True)
class NodeFailure:
    """What a node's work ended with, instead of a result."""

    error: SpindleError
    action: str
    """By which the flow goes on, where there is an edge for it."""

    def edge(self, successors: Collection[str]) -> str | None:
        """The action for which there is an edge: its own, or `error`."""
        return next((name for name in (self.action, ERROR) if name in successors), None)

    def told(self) -> JsonObject:
        """The error as the nodes after it see it. What the tool said and structured is kept."""
        told = {**self.error.to_dict(), "action": self.action}
        result = self.error.details
        if self.error.category == "tool" and is_object(result):
            told |= {"text": self.error.message, "structured": result.get("structured")}
        return told


def action_of(error: SpindleError) -> str:
    if error.category == "client" and error.status in (404, 410):
        return "resource_missing"
    return _ACTIONS.get(error.category, ERROR)


def may_pass(error: Exception) -> bool:
    """Whether the same call may succeed another time. What a tool itself reports may: only it knows why."""
    return isinstance(error, SpindleError) and error.category not in _HOPELESS
