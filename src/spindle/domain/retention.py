"""The settings of what is kept, and for how long: the `[retention]` table."""

from __future__ import annotations

import re
from typing import Annotated, Any, cast

from pydantic import BeforeValidator, ByteSize, Field, field_validator

from spindle.domain.source import Section

UNLIMITED = "unlimited"
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_AGE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([smhdw])\s*")


def _seconds(value: Any) -> Any:
    if value == UNLIMITED:
        return None
    if not isinstance(value, str):
        return value
    match = _AGE.fullmatch(value)
    if match is None:
        raise ValueError("must be a time such as '90d', '12h' or '30m', or 'unlimited'")
    return float(match[1]) * _UNITS[match[2]]


def _amount(value: Any) -> Any:
    return None if value == UNLIMITED else value


Age = Annotated[Annotated[float, Field(ge=0)] | None, BeforeValidator(_seconds)]
Count = Annotated[Annotated[int, Field(ge=0)] | None, BeforeValidator(_amount)]
Size = Annotated[Annotated[ByteSize, Field(ge=0)] | None, BeforeValidator(_amount)]


class Keep(Section):
    """The limits of one kind of record: what is over any of them goes, the oldest first."""

    age: Age = Field(default=None, description="the longest time")
    count: Count = Field(default=None, description="the largest number")
    size: Size = Field(default=None, description="the most bytes, all together")


class KeepWhileGood(Section):
    """The limits of what ends by itself, too."""

    count: Count = Field(default=None, description="the largest number")
    size: Size = Field(default=None, description="the most bytes, all together")


_MONTHS_3 = 90 * 86400.0
_GIB = 1024**3
DEFAULTS: dict[str, dict[str, Any]] = {
    "calls": {"age": _MONTHS_3, "count": 1_000_000, "size": _GIB},
    "runs": {"age": _MONTHS_3, "count": 100_000, "size": _GIB},
    "events": {"age": _MONTHS_3, "count": 1_000_000, "size": _GIB},
    "audit": {"age": 4 * _MONTHS_3, "count": 10_000_000, "size": 4 * _GIB},
    "cache": {"count": 100_000, "size": _GIB // 4},
    "files": {"age": _MONTHS_3, "count": 100_000, "size": 10 * _GIB},
}


class RetentionConfig(Section):
    """The `[retention]` table. A limit that is left out has its default; "unlimited" takes it away."""

    calls: Keep = Field(default=Keep(**DEFAULTS["calls"]), description="records of calls")
    runs: Keep = Field(default=Keep(**DEFAULTS["runs"]), description="runs that have ended")
    events: Keep = Field(
        default=Keep(**DEFAULTS["events"]), description="events that other frameworks have stored here"
    )
    audit: Keep = Field(default=Keep(**DEFAULTS["audit"]), description="entries of the audit log")
    cache: KeepWhileGood = Field(
        default=KeepWhileGood(**DEFAULTS["cache"]), description="cached results, which also expire"
    )
    files: Keep = Field(default=Keep(**DEFAULTS["files"]), description="large content of results")
    every: float = Field(default=300.0, ge=1, description="seconds between two looks while serving")
    background: bool = Field(default=True, description="false: only `spindle prune` removes anything")

    @field_validator(*DEFAULTS, mode="before")
    @classmethod
    def _over_defaults(cls, value: Any, info: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return DEFAULTS[info.field_name] | cast("dict[str, Any]", value)
