"""Quotas: how much of something principals may use, by user, group and tool."""

from __future__ import annotations

import re
from typing import Any, Self

from pydantic import ByteSize, Field, TypeAdapter, model_validator

from spindle.domain.section import Section
from spindle.domain.source import RateLimit

_SIZE = TypeAdapter(ByteSize)


class ByteRate(Section):
    """A number of bytes within a number of seconds; also written as text, such as "10MB/day"."""

    bytes: float = Field(gt=0)
    seconds: float = Field(default=1.0, gt=0)

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        size, _, period = value.partition("/")
        try:
            number = int(_SIZE.validate_python(size.strip()))
            rate = RateLimit.model_validate(f"1/{period.strip()}")
        except ValueError:
            raise ValueError(f"{value!r} is not a rate such as '10MB/day' or '500KiB/minute'") from None
        return {"bytes": number, "seconds": rate.seconds}


class QuotaRule(Section):
    """A limit for `users`, or members of `groups`; left out, for everybody. With `tools`, which may be
    patterns, only calls of these count."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    shared: bool = Field(default=False, description="all of them together, instead of each user")
    calls: RateLimit | None = Field(default=None, description='calls, such as "1000/hour"')
    concurrency: int | None = Field(default=None, ge=1, description="calls at once")
    bytes: ByteRate | None = Field(
        default=None, description='bytes of arguments and results, such as "10MB/day"'
    )
    cost: RateLimit | None = Field(default=None, description='units of serve.costs, such as "500/day"')

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        if self.calls is self.concurrency is self.bytes is self.cost is None:
            raise ValueError("give at least one of calls, concurrency, bytes and cost")
        return self


def check_name(name: str) -> str:
    """Returns the name of a token, group or quota. Raises ValueError for one that cannot be."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,127}", name):
        raise ValueError(
            f"{name[:60]!r} is no name: letters, digits, and . _ @ - after the first, at most 128"
        )
    return name
