"""The settings of runs in the background: the `[engine]` table."""

from __future__ import annotations

import re
from typing import Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from spindle.domain.run import DEFAULT_QUEUE
from spindle.domain.section import Section
from spindle.domain.source import RateLimit

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_ADDRESS = re.compile(r"(?P<host>\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+):\d{1,5}")
_HERE = ("localhost", "127.0.0.1", "[::1]")


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
    share: float | None = Field(
        default=None, gt=0, le=1, description="the part of `total` and of `limit` that one principal may have"
    )
    served: bool | None = Field(
        default=None,
        description="true: callers over REST may use it; left out: only if it is the queue `default`",
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
        if self.share is not None and self.total is None and self.limit is None:
            raise ValueError("`share` is a part of `total` or of `limit`, and neither is set")
        return self

    def is_served(self, name: str) -> bool:
        """True if callers from outside may submit to the queue, which has this name."""
        return name == DEFAULT_QUEUE if self.served is None else self.served

    @property
    def places_of_one(self) -> int | None:
        """The runs of one principal that may execute at once, or be about to; None if as many as any."""
        return _part(self.share, self.total)

    @property
    def waiting_of_one(self) -> int | None:
        """The runs of one principal that may wait; None if as many as any."""
        return _part(self.share, self.limit)


def _part(share: float | None, whole: int | None) -> int | None:
    return None if share is None or whole is None else max(int(share * whole), 1)


class TemporalConfig(Section):
    """The address of a Temporal server, and how this workspace is known there."""

    address: str = Field(description="host and port, such as `temporal.example.com:7233`")
    namespace: str = Field(default="default", min_length=1, max_length=255)
    prefix: str = Field(
        default="spindle",
        pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,62}$",
        description="the beginning of the names of task queues and workflows: one for each workspace",
    )
    dead_after: float = Field(
        default=1.5,
        ge=1,
        le=3600,
        description="seconds without a sign of life after which others go on with the runs of a worker",
    )
    api_key: SecretStr | None = Field(
        default=None, min_length=1, description="a reference to a secret, such as `${TEMPORAL_API_KEY}`"
    )
    tls: bool | None = Field(default=None, description="left out: with a key or a certificate")
    ca: str | None = Field(default=None, description="a file: the authority of the server's certificate")
    certificate: str | None = Field(default=None, description="a file: the certificate of this client")
    key: str | None = Field(default=None, description="a file: the key of this certificate")

    @property
    def uses_tls(self) -> bool:
        """True if the connection is encrypted."""
        return bool(self.api_key or self.ca or self.certificate) if self.tls is None else self.tls

    @model_validator(mode="after")
    def _fits(self) -> Self:
        address = _ADDRESS.fullmatch(self.address)
        if address is None:
            raise ValueError(f"`address` {self.address!r} is not HOST:PORT, such as `localhost:7233`")
        if (self.certificate is None) != (self.key is None):
            raise ValueError("`certificate` and `key` belong together")
        if not self.uses_tls and (self.ca or self.certificate):
            raise ValueError("`ca` and `certificate` are of use with `tls` only")
        if not self.uses_tls and self.api_key and address["host"] not in _HERE:
            raise ValueError("`api_key` would be sent in the clear: take `tls = false` out")
        return self


class EngineConfig(Section):
    """The engine that executes submitted runs, and its queues."""

    kind: Literal["local", "dbos", "temporal"] | None = Field(
        default=None, description="left out: `dbos` where it is installed, for runs that are submitted"
    )
    temporal: TemporalConfig | None = None
    tasks: str | None = Field(
        default=None,
        description="the queue of MCP tasks; left out: `default` where `kind` names an engine, else none:"
        " the process that serves executes them",
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

    @model_validator(mode="after")
    def _has_what_its_kind_needs(self) -> Self:
        if self.kind != "temporal":
            if self.temporal is not None:
                raise ValueError('`temporal` is of use with `kind = "temporal"` only')
            return self
        if self.temporal is None:
            raise ValueError("[engine.temporal] is missing, with the `address` of its server")
        limited = [name for name, queue in self.queues.items() if queue.total is not None]
        if limited:
            raise ValueError(
                f"queues.{limited[0]}.total: Temporal cannot limit the runs of all workers together; use"
                ' `concurrency` and the number of workers, or `kind = "dbos"`'
            )
        return self

    @model_validator(mode="after")
    def _tasks_have_a_queue(self) -> Self:
        if self.tasks is not None and self.tasks not in self.all_queues:
            raise ValueError(f"`tasks` names {self.tasks!r}, which is not among the queues")
        if self.tasks is not None and self.kind == "local":
            raise ValueError('`tasks` needs queues, which `kind = "local"` does not keep')
        return self

    @property
    def task_queue(self) -> str | None:
        """The queue of MCP tasks; None if the process that serves executes them."""
        return self.tasks or (None if self.kind in (None, "local") else DEFAULT_QUEUE)

    @property
    def all_queues(self) -> dict[str, QueueConfig]:
        """The queues, with the one that is always there."""
        return {DEFAULT_QUEUE: QueueConfig(), **self.queues}
