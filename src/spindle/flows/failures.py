"""Errors as actions: the edge that a failed node takes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from spindle.domain.json_schema import JsonObject, is_object
from spindle.errors import SpindleError

ERROR = "error"
REFUSED = "refused"
"""The action of a question that was not answered."""

_ACTIONS = {
    "rate_limited": "rate_limited",
    "auth": "auth_failed",
    "permission": "auth_failed",
    "not_found": "resource_missing",
    "timeout": "timeout",
    "in_doubt": "in_doubt",
    "connection": "server_error",
    "server": "server_error",
}
_HOPELESS = frozenset(
    {
        "invalid_arguments",
        "not_found",
        "permission",
        "auth",
        "configuration",
        "cancelled",
        "flow",
        "store",
        "in_doubt",
    }
)


@dataclass(frozen=True, slots=True)
class NodeFailure:
    """The error with which a node's work ended, in place of a result."""

    error: SpindleError
    action: str
    """The action with which the flow continues, if there is an edge for it."""

    def edge(self, actions: Collection[str]) -> str | None:
        """Returns the action for which there is an edge: its own, or `error`."""
        return next((name for name in (self.action, ERROR) if name in actions), None)

    def told(self) -> JsonObject:
        """Returns the error as later nodes see it. The text and the data that the tool returned are kept."""
        told = {**self.error.to_dict(), "action": self.action}
        result = self.error.details
        if is_object(result) and ("is_error" in result or self.error.category == "tool"):
            told |= {"text": self.error.message, "structured": result.get("structured")}
        return told


def told(error: BaseException | None) -> JsonObject:
    """Returns an error as records keep it."""
    if isinstance(error, SpindleError):
        return error.to_dict()
    return {"category": "error", "message": f"{type(error).__name__}: {error}"}


def action_of(error: SpindleError) -> str:
    """Returns the action for an error."""
    if error.category == "client" and error.status in (404, 410):
        return "resource_missing"
    return _ACTIONS.get(error.category, ERROR)


def may_pass(error: Exception) -> bool:
    """True if the same call may succeed another time. An error that a tool reports may: only the tool
    knows why."""
    return isinstance(error, SpindleError) and error.category not in _HOPELESS
