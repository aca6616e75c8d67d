"""The overview: sources, calls of the last hour, what waits for a person, and runs in progress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

from spindle.console.screen import Look, Screen
from spindle.console.source_lines import SourceLine, source_lines

if TYPE_CHECKING:
    from spindle.domain.run import Run
    from spindle.ports.store import CallTiming
    from spindle.runs.outcomes import OpenPause

HOUR: Final = 3600.0
COLUMNS: Final = 60
NEWEST: Final = 20_000
"""Calls that charts look at, at most."""
FEW: Final = 6


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
    """Returns calls by the time at which they began."""
    counts, failures = [0] * COLUMNS, [0] * COLUMNS
    spans: list[list[float]] = [[] for _ in range(COLUMNS)]
    for timing in timings:
        at = int((timing.started_at - (now - span)) / span * COLUMNS)
        if not 0 <= at < COLUMNS:
            at = COLUMNS - 1 if at >= COLUMNS else 0  # clocks of several machines differ
        counts[at] += 1
        failures[at] += timing.outcome not in ("ok", "cached")
        spans[at].append(timing.duration)
    every = sorted(timing.duration for timing in timings)
    return CallsGlance(
        tuple(counts),
        tuple(failures),
        tuple(median(column) if column else None for column in spans),
        len(timings),
        sum(failures),
        median(every) if every else None,
        every[min(int(len(every) * 0.95), len(every) - 1)] if every else None,
    )


@dataclass(frozen=True, slots=True)
class Overview:
    """The whole page."""

    sources: Sequence[SourceLine]
    troubled: int
    tools: int
    calls: CallsGlance
    waiting: Sequence[OpenPause]
    runs: Sequence[Run]

    @property
    def is_new(self) -> bool:
        """True if nothing was set up yet."""
        return not self.sources and not self.tools


async def overview(look: Look) -> Overview:
    """Looks at everything for a moment."""
    app = look.app
    sources = await source_lines(look)
    timings = await app.store.call_timings(limit=NEWEST, since=look.now - HOUR, principal=look.whose)
    runs = await app.store.runs(limit=FEW, status="running", principal=look.whose)
    return Overview(
        sources,
        sum(line.state in ("failing", "held") for line in sources),
        sum(line.tools for line in sources),
        glance(timings, look.now),
        (await app.pauses(approver=look.principal))[:FEW],
        runs,
    )


SCREENS: Final = (Screen("", "overview.html", overview, "overview"),)
