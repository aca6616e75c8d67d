"""Calls at a glance: how many, how many failed and how long they took, in columns of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from spindle.ports.store import CallTiming

HOUR: Final = 3600.0
COLUMNS: Final = 60
NEWEST: Final = 20_000
"""Calls that charts look at, at most."""


@dataclass(frozen=True, slots=True)
class CallsGlance:
    """The calls of a while, in columns of equal length."""

    counts: tuple[int, ...]
    failures: tuple[int, ...]
    medians: tuple[float | None, ...]
    total: int
    failed: int
    median: float | None
    slow: float | None
    """The time that one call in twenty takes longer than."""

    @property
    def share_failed(self) -> float:
        """From 0 to 1."""
        return self.failed / self.total if self.total else 0.0


def glance(timings: Sequence[CallTiming], now: float, span: float = HOUR) -> CallsGlance:
    """Returns calls by the time at which they began. One that paused took no time yet."""
    counts, failures = [0] * COLUMNS, [0] * COLUMNS
    spans: list[list[float]] = [[] for _ in range(COLUMNS)]
    for timing in timings:
        at = int((timing.started_at - (now - span)) / span * COLUMNS)
        if not 0 <= at < COLUMNS:
            at = COLUMNS - 1 if at >= COLUMNS else 0  # clocks of several machines differ
        counts[at] += 1
        failures[at] += timing.outcome not in ("ok", "cached", "paused")
        if timing.outcome != "paused":
            spans[at].append(timing.duration)
    every = sorted(timing.duration for timing in timings if timing.outcome != "paused")
    return CallsGlance(
        tuple(counts),
        tuple(failures),
        tuple(median(column) if column else None for column in spans),
        len(timings),
        sum(failures),
        median(every) if every else None,
        every[min(int(len(every) * 0.95), len(every) - 1)] if every else None,
    )
