"""Finds the run that a user names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.domain.run import Run

LAST = "last"
SHORT = 12
"""Characters of an id that are shown; any unique beginning of an id can be given."""


async def find_run(app: Spindle, text: str) -> Run:
    """Returns the run of an id, of a unique beginning of one, or the last run for `last`."""
    from spindle.errors import NotFoundError

    if text == LAST:
        newest = await app.store.runs(limit=1)
        if not newest:
            raise NotFoundError("there are no runs yet", hint="`spindle run FLOW` makes one")
        return newest[0]
    found = await app.store.run(text) if text else None
    if found is not None:
        return found
    alike = [run for run in await app.store.runs(limit=1000) if text and run.id.startswith(text)]
    if len(alike) > 1:
        raise NotFoundError(
            f"{len(alike)} runs begin with {text!r}",
            hint=f"such as {alike[0].id[:SHORT]} and {alike[1].id[:SHORT]}",
        )
    raise NotFoundError(f"there is no run {text!r}", hint="`spindle runs` lists them")
