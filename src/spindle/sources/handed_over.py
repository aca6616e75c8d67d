"""Sources that a program hands over when it opens a workspace: functions, and those of a tape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spindle.calls.tape import Tape
    from spindle.catalog.sources import SourceSet
    from spindle.ports.source import Note
    from spindle.settings import Settings


def hand_over(
    sources: SourceSet,
    settings: Settings,
    functions: Sequence[Callable[..., Any]],
    tape: Tape | None,
    note: Note,
) -> set[str]:
    """Adds functions as tools, or all sources of a tape, to the sources of a workspace. Returns the names
    of those that were added."""
    if tape is not None:
        from spindle.sources.taped.replay import add_taped

        return add_taped(sources, settings, tape, note)
    from spindle.sources.python import PythonSource

    own = "python" if "python" not in sources.names else "python-functions"
    sources.add(own, *PythonSource.of_functions(own, functions, settings.root, note))
    return {own}
