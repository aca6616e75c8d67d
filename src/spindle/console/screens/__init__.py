"""The screens of the console, one module each, and its navigation.

A screen is added here: its module has a view and `SCREENS`, its template is in `templates/`.
"""

from __future__ import annotations

from typing import Final

from spindle.console.screen import NavEntry, Screen
from spindle.console.screens import (
    access,
    calls,
    find,
    flows,
    health,
    overview,
    quotas,
    runs,
    sources,
    tools,
    trying,
    waiting,
)

PLACES: Final = (
    NavEntry("overview", "Overview", ""),
    NavEntry("tools", "Tools", "/tools"),
    NavEntry("sources", "Sources", "/sources"),
    NavEntry("runs", "Runs", "/runs"),
    NavEntry("calls", "Calls", "/calls"),
    NavEntry("waiting", "Waiting", "/waiting"),
    NavEntry("flows", "Flows", "/flows"),
    NavEntry("access", "Access", "/access"),
    NavEntry("health", "Health", "/health"),
)

SCREENS: Final[tuple[Screen, ...]] = (
    *overview.SCREENS,
    *tools.SCREENS,
    *trying.SCREENS,
    *sources.SCREENS,
    *runs.SCREENS,
    *flows.SCREENS,
    *calls.SCREENS,
    *waiting.SCREENS,
    *access.SCREENS,
    *quotas.SCREENS,
    *health.SCREENS,
    *find.SCREENS,
)
