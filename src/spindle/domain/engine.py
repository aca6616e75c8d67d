"""The settings of runs in the background: the `[engine]` table."""

from __future__ import annotations

import re
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from spindle.domain.run import DEFAULT_QUEUE
from spindle.domain.section import Section
from spindle.domain.source import RateLimit

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")


class QueueConfig(Section):
    """A queue of runs: how many execute at once, and what becomes of those that fail."""

    concurrency: int = Field(default=10, ge=1, description="runs that one worker executes at once")
    total: int | None = Field(
        default=None, ge=1, description="runs that all workers together execute at once"
    )
    rate: RateLimit | None = Field(default=None, description="runs that may begin, such as `100/minute`")
    limit: int | None = Field(
        default=None, ge=1, description="runs that may wait; when there are so many, others are refused"
    )
    timeout: float | None = Field(
        default=None, gt=0, description="seconds that a run may execute, from its start or an answer on"
    )
    retries: int = Field(
        default=0, ge=0, description="how often a run goes on that failed with an error that may pass"
    )
    backoff: float = Field(
        default=5.0, gt=0, description="seconds before the first retry; each further one waits twice as long"
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (
            self.total is not None
            and "concurrency" in self.model_fields_set
            and self.concurrency > self.total
        ):
            raise ValueError("`concurrency`, of one worker, is larger than `total`, of all")
        return self


class EngineConfig(Section):
    """The engine that executes submitted runs, and its queues."""

    kind: Literal["local", "dbos"] | None = Field(
        default=None, description="left out: `dbos` where it is installed, for runs that are submitted"
    )
    queues: dict[str, QueueConfig] = Field(default_factory=dict[str, QueueConfig])

    @field_validator("queues")
    @classmethod
    def _names_are_plain(cls, queues: dict[str, QueueConfig]) -> dict[str, QueueConfig]:
        for name in queues:
            if not _NAME.fullmatch(name):
                raise ValueError(
                    f"a queue cannot be called {name!r}: a name begins with a small letter and has small"
                    " letters, digits, `_` and `-`, at most 63"
                )
        return queues

    @property
    def all_queues(self) -> dict[str, QueueConfig]:
        """The queues, with the one that is always there."""
        return {DEFAULT_QUEUE: QueueConfig(), **self.queues}
