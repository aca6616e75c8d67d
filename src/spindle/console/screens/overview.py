"""The overview: sources, calls of the last hour, what waits for a person, and runs in progress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spindle.console.glances import HOUR, NEWEST, CallsGlance, glance
from spindle.console.screen import Look, Screen
from spindle.console.source_lines import SourceLine, source_lines
from spindle.domain.identity import LOCAL
from spindle.presets import presets
from spindle.serving.answering import waiting_for

if TYPE_CHECKING:
    from spindle.domain.run import Run
    from spindle.presets import Preset
    from spindle.runs.outcomes import OpenPause

FEW: Final = 6


@dataclass(frozen=True, slots=True)
class Overview:
    """The whole page."""

    is_new: bool
    """True if nothing was set up yet."""
    sources: Sequence[SourceLine]
    troubled: int
    tools: int
    calls: CallsGlance
    waiting: Sequence[OpenPause]
    runs: Sequence[Run]
    starters: Sequence[Preset]
    """Servers to begin with, which need nothing; only where nothing was set up, for whoever may add them."""


STARTERS: Final = ("time", "fetch", "memory", "git")


async def overview(look: Look) -> Overview:
    """Looks at everything for a moment."""
    app = look.app
    sources = await source_lines(look)
    timings = await app.store.call_timings(limit=NEWEST, since=look.now - HOUR, principal=look.whose)
    runs = await app.store.runs(limit=FEW, status="running", principal=look.whose)
    troubled = sum(line.state in ("failing", "lost", "held", "consent") for line in sources)
    tools = sum(line.tools for line in sources)
    is_new = not tools and not troubled
    may_add = look.principal.id == LOCAL.id and look.principal.admin
    return Overview(
        is_new,
        sources,
        troubled,
        tools,
        glance(timings, look.now),
        (await waiting_for(app, look.person))[:FEW],
        runs,
        _starters() if is_new and may_add else [],
    )


def _starters() -> list[Preset]:
    known = presets()
    return [known[name] for name in STARTERS if name in known and not known[name].needs()]


SCREENS: Final = (Screen("", "overview.html", overview, "overview"),)
