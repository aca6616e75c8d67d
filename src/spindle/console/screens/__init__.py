"""The screens of the console, one module each, and its navigation.

A screen is added here: its module has a view and `SCREENS`, its template is in `templates/`.
"""

from __future__ import annotations

from typing import Final

from spindle.console.screen import NavEntry, Screen
from spindle.console.screens import find, overview, tools

PLACES: Final = (
    NavEntry("overview", "Overview", ""),
    NavEntry("tools", "Tools", "/tools"),
)

SCREENS: Final[tuple[Screen, ...]] = (*overview.SCREENS, *tools.SCREENS, *find.SCREENS)
