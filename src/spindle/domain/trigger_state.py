"""The state of a trigger, apart from its settings, which cost more to load than most commands need."""

from __future__ import annotations

from dataclasses import dataclass

from spindle.domain.json_schema import JsonObject


@dataclass(frozen=True, slots=True)
class TriggerState:
    """The state of a trigger."""

    name: str
    runs: int = 0
    """The number of runs that it has started."""
    last_at: float | None = None
    """The last time that something happened."""
    last_run: str | None = None
    error: JsonObject | None = None
    """Why that started no run, or why nothing can be heard."""

    def to_dict(self) -> JsonObject:
        """Returns the state as JSON."""
        return {
            "runs": self.runs,
            "last_at": self.last_at,
            "last_run": self.last_run,
            "error": self.error,
        }
