"""Work that is remembered step by step, so that it can stop for a person and go on elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from spindle.domain.call import new_id
from spindle.domain.identity import LOCAL, Principal
from spindle.domain.json_schema import JsonObject
from spindle.domain.records import quick_dataclass

RunStatus = Literal["queued", "running", "paused", "done", "failed", "cancelled"]
"""`queued`: it was submitted, or answered, and no worker has begun its next turn."""
PauseKind = Literal["consent", "approval", "input", "wait"]
"""`wait` is for no person: the run goes on at a time, or when something happens."""
PauseState = Literal["waiting", "answered"]
EventKind = Literal[
    "started", "begun", "stopped", "step", "note", "paused", "answered", "resumed", "retried", "ended"
]
"""`begun`: a call is about to be sent. Its place is in doubt until there is a `step`, its outcome, or
`stopped`: it asked somebody, and is made again with the answer. `retried`: what failed before is
made again."""

RECORD = 1
"""The version of what a submitted run may be and its flow may say. It goes up with all that workers of
earlier versions would not understand: they leave such runs to others."""
DEFAULT_QUEUE = "default"
PART = "part"
"""The kind of runs that do a part of a batch of another."""
USUAL_PRIORITY = 100


@dataclass(frozen=True, slots=True)
class Run:
    """One execution as it stands now. Its arguments and results are in its events."""

    name: str
    """The tool, flow or agent that runs."""
    kind: str = "call"
    principal: Principal = LOCAL
    status: RunStatus = "running"
    created_at: float = 0.0
    updated_at: float = 0.0
    error: JsonObject | None = None
    owner: str | None = None
    """The process that executes it, or did last."""
    lease: float | None = None
    """Seconds for which the owner still counts as alive without further signs of it, by the store's clock."""
    generation: int = 1
    """Counts the processes that have executed it: who holds an older one has lost the run."""
    id: str = field(default_factory=new_id)
    queue: str | None = None
    """The queue that it was submitted to. None: it executes in the process that starts or continues it."""
    turn: int = 0
    """Counts the executions that were handed to the engine: only the last of them may have the run. Below it,
    negative or 0, while the run is queued and held back, because its principal has its share of the queue."""
    priority: int = USUAL_PRIORITY
    """Its place in the queue: a smaller number is sooner."""
    not_before: float | None = None
    """The time before which the next turn does not begin."""

    def to_dict(self) -> JsonObject:
        """Returns the run as JSON."""
        submitted = {} if self.queue is None else {"queue": self.queue, "priority": self.priority}
        return {
            "id": self.id,
            "kind": self.kind,
            "name": self.name,
            "principal": self.principal.id,
            "status": self.status,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            "error": self.error,
            **submitted,
        }


@quick_dataclass(frozen=True, slots=True)
class RunEvent:
    """One thing that happened in a run. Events are only ever added."""

    run: str
    kind: EventKind
    at: float
    path: str = ""
    """The place in the run: the step, below the steps during which it was made."""
    sealed: bytes | None = None
    """The content of the event, encrypted: arguments and results are the user's own."""
    id: str = field(default_factory=new_id)


@dataclass(frozen=True, slots=True)
class Begun:
    """A call that was begun before, and of which nobody knows how it ended."""

    at: float
    process: str
    """The process that made it, as people know it: its machine and number."""
    keyed: bool
    """True if it was sent an idempotency key."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A run waiting for a person. The token is what `resume` wants, and works once."""

    token: str
    run: str
    path: str
    kind: PauseKind
    message: str
    principal: Principal
    created_at: float
    source: str | None = None
    tool: str | None = None
    expires_at: float | None = None
    state: PauseState = "waiting"
    sealed: bytes | None = None
    """All that the person needs to see, encrypted."""
    answer: bytes | None = None
    """The answer, encrypted."""
