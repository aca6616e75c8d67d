"""Moments and ages that users write: `2026-11-17`, `2026-11-17T09:30`, `15m`, `7d`."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

import click

from spindle.domain.moments import seconds_in


class Moment(click.ParamType[float]):
    """A time in seconds since 1970: an ISO time, in the local zone unless it names one, or how long ago."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if not isinstance(value, str):
            return value
        ago = seconds_in(value)
        if ago is not None:
            return time.time() - ago
        try:
            return datetime.fromisoformat(value).timestamp()
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is no time: write 2026-11-17T09:30, or how long ago, such as 15m or 7d")


class Later(Moment):
    """A time to come: an ISO time, or how long from now."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        wait = seconds_in(value) if isinstance(value, str) else None
        if wait is not None:
            return time.time() + wait
        try:
            return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else value
        except (ValueError, OverflowError):
            self.fail(
                f"{value!r} is no time: write 2026-11-17T09:30, or how long from now, such as 15m or 7d"
            )


class Age(click.ParamType[float]):
    """Seconds, written as `30m`, `12h` or `90d`."""

    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if not isinstance(value, str):
            return value
        found = seconds_in(value)
        if found is None:
            self.fail(f"{value!r} is no length of time: write 30m, 12h or 90d")
        return found
