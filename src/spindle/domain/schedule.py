"""Flows that are submitted again and again, at times."""

from __future__ import annotations

from dataclasses import dataclass, field

from spindle.domain.call import new_id
from spindle.domain.identity import LOCAL, Principal
from spindle.domain.json_schema import JsonObject
from spindle.domain.run import DEFAULT_QUEUE, USUAL_PRIORITY

MAX_CATCH_UP = 1000
"""Missed ticks that are made up for at most."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a flow is submitted, for whom, and how far that has come. Each time is a tick."""

    name: str
    flow: str
    """The name of the flow's runs."""
    cron: str | None = None
    every: float | None = None
    """Seconds between two ticks, counted from `created_at`. Either this or `cron`."""
    zone: str = "UTC"
    """The time zone by which `cron` is read."""
    catch_up: int = 0
    """The number of missed ticks that are made up for; the newest of them."""
    queue: str = DEFAULT_QUEUE
    priority: int = USUAL_PRIORITY
    principal: Principal = LOCAL
    created_at: float = 0.0
    next_at: float = 0.0
    paused: bool = False
    last_at: float | None = None
    """The last tick that came, or was missed."""
    last_run: str | None = None
    """The run of that tick. None: it was refused, or missed."""
    error: JsonObject | None = None
    """Why that tick had no run."""
    sealed: bytes = b""
    """The flow's name or line of tools, which is read anew at each tick, and its inputs, encrypted."""
    version: int = 1
    """Counts the changes: who knows an older one changes nothing."""
    id: str = field(default_factory=new_id)
    """Unlike that of any other, also of one that had the same name."""

    @property
    def rhythm(self) -> str:
        """When its ticks come, in words."""
        return f"every {self.every:g} s" if self.cron is None else f"{self.cron} ({self.zone})"

    def to_dict(self) -> JsonObject:
        """Returns the schedule as JSON, without its inputs."""
        rhythm: JsonObject = {"every": self.every} if self.cron is None else {"cron": self.cron}
        return {
            "name": self.name,
            "flow": self.flow,
            **rhythm,
            "zone": self.zone,
            "catch_up": self.catch_up,
            "queue": self.queue,
            "priority": self.priority,
            "principal": self.principal.id,
            "paused": self.paused,
            "created_at": self.created_at,
            "next_at": None if self.paused else self.next_at,
            "last_at": self.last_at,
            "last_run": self.last_run,
            "error": self.error,
        }
