"""The port of engines: they decide who executes a run and when.

An engine knows turns, not runs. What a run was given, its steps and its outcome are in the store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from spindle.domain.run import USUAL_PRIORITY
from spindle.errors import NotFoundError, did_you_mean

if TYPE_CHECKING:
    from spindle.domain.engine import QueueConfig


@dataclass(frozen=True, slots=True)
class RunTurn:
    """One execution of a run: from its start, or after an answer, to its end or its next pause."""

    run: str
    number: int
    queue: str
    priority: int = USUAL_PRIORITY
    """A smaller number is sooner."""
    not_before: float | None = None

    @property
    def id(self) -> str:
        """The id by which engines know it."""
        return turn_id(self.run, self.number)


def turn_id(run: str, number: int) -> str:
    """Returns the id of a turn of a run."""
    return f"{run}.{number}"


def queue_of(queues: Mapping[str, QueueConfig], name: str) -> QueueConfig:
    """Returns the settings of a queue. Raises NotFoundError."""
    if name not in queues:
        known = f"the queues of [engine.queues] are {', '.join(queues)}"
        raise NotFoundError(f"there is no queue {name!r}", hint=did_you_mean(name, queues, known))
    return queues[name]


Execute = Callable[[str, int], Awaitable[None]]
"""Executes a run's turn of this number. Raises if it could not be executed: it is over all the same, and
whoever watches over the runs submits another."""


@dataclass(frozen=True, slots=True)
class EngineWorker:
    """A process that executes turns."""

    id: str
    """Unlike that of any other, also of those that are dead."""
    execute: Execute
    queues: Collection[str]
    concurrency: int | None = None
    """Turns of each queue that it executes at once, if fewer than the queue's settings say."""
    on_ready: Callable[[], None] | None = None
    """Told when it takes turns."""
    may_take: Callable[[], bool] = lambda: True
    """False: it ends those in hand, and takes no more."""


class Engine(Protocol):
    """Keeps turns until a worker executes them."""

    @property
    def queues(self) -> Mapping[str, QueueConfig]:
        """The queues that it keeps, by their names."""
        ...

    def queue(self, name: str) -> QueueConfig:
        """Returns the settings of a queue. Raises NotFoundError if there is no such queue, and
        ConfigurationError with the way to get queues if there are none at all."""
        ...

    async def check(self) -> None:
        """Raises if turns could not be submitted at all: asked before a run is stored."""
        ...

    async def submit(self, turn: RunTurn) -> None:
        """Returns when the turn would survive the death of this process. The same turn again is no other."""
        ...

    async def unfinished(self, turns: Collection[str]) -> set[str]:
        """Returns the ids of those turns among these that wait, or that a worker has begun."""
        ...

    async def cancel(self, turn: str) -> None:
        """Forgets a turn that waits. One that was begun goes on: its run says if it may."""
        ...

    async def work(self, worker: EngineWorker) -> None:
        """Executes turns until it is cancelled, also those that workers have left which died. Turns in hand
        are cancelled then."""
        ...

    async def close(self) -> None:
        """Closes what was opened to submit turns."""
        ...
