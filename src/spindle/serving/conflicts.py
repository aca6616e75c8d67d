"""Refuses to serve a workspace in which two tools have the same name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.ports.source import Note


async def refuse_conflicts(app: Spindle, note: Note) -> None:
    """Raise NameConflictError where two tools claim one name. Asks, of the sources whose tools have plain
    names, those that changed or failed since; the names of all others begin with their source's own.
    What else is wrong with a source is noted: the others can be served."""
    catalog = app.catalog
    catalog.sources.validate()
    # A variable that is missing is a mistake in the settings, told before anything is started.
    plain = {name for name in catalog.sources.names if not catalog.sources.config(name).prefix}
    states = await catalog.states()
    unsynced = {*catalog.unsynced(), *(name for name, state in states.items() if state.error is not None)}
    for report in await catalog.sync(sorted(plain & unsynced)):
        conflict = catalog.conflicts.get(report.source)
        if conflict is not None:
            raise conflict
        if report.error is not None:
            note(f"{report.source}: {report.error['message']}")
