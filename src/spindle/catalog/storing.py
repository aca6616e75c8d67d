"""Stores the tools that a sync has found, as far as the pins of their source allow.

Pins, the definitions that a person has accepted, are kept apart from the tools. Every process that syncs the
source keeps to them, whatever its own settings say, and only a person's word changes them: `spindle sync
--accept`, or `spindle remove`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from spindle.catalog.diff import SyncReport, merge, same_tools
from spindle.catalog.inspection import instructions_name
from spindle.domain.finding import serious_names
from spindle.errors import NameConflictError
from spindle.ports.store import PinChange
from spindle.threads import in_turn

if TYPE_CHECKING:
    from spindle.catalog.screening import Taken
    from spindle.catalog.sources import SourceSet
    from spindle.domain.source import SourceConfig
    from spindle.ports.source import Note
    from spindle.ports.store import Pins, SourceState, StoredTool, ToolStore


async def store_tools(
    store: ToolStore,
    state: SourceState,
    config: SourceConfig,
    taken: Taken,
    accept: Collection[str] | bool,
    sources: SourceSet,
    note: Note,
) -> SyncReport:
    """Makes these the tools of a source, and returns what is different. `accept` names those whose new
    definitions a person trusts; True: all."""
    name, suspect = state.name, serious_names(taken.findings)
    while True:
        known = await store.stored_tools(name)
        last = (await store.sources(name)).get(name)
        before = await store.pins(name)
        is_new = last is None or last.synced_at is None
        pins = pins_in_force(before, known, pinned=config.pinned, is_new=is_new)
        # In a thread: a list may be as large as the settings allow, and others use the event loop.
        merging = partial(merge, name, known, taken.tools, pins, accept, suspect)
        merged, report = await in_turn(merging)
        after = pins_after(pins, merged, pinned=config.pinned, accept=accept)
        is_same = last is not None and last.signature == state.signature and before == after
        if is_same and await in_turn(same_tools, known, merged):
            # Nothing that others would have to read again.
            await store.note_synced(state)
            break
        try:
            if await store.replace_tools(state, merged, PinChange(before, after)):
                break  # otherwise a person has accepted something meanwhile: once more with that
        except NameConflictError as error:
            await _name_stranger(error, store, merged, sources)
            raise
    report.left_out, report.loosened, report.findings = taken.left_out, taken.loosened, taken.findings
    if before is not None and report.held and not config.pinned:
        note(
            f"{name} is pinned in this store, though not in these settings;"
            f" `spindle sync {name} --accept-all` ends that"
        )
    return report


async def _name_stranger(
    error: NameConflictError, store: ToolStore, tools: Sequence[StoredTool], sources: SourceSet
) -> None:
    """Says how to free a name that is taken by a source which these settings do not have."""
    for tool in tools:
        other = await store.tool(tool.name)
        if other is not None and other.source not in sources:
            error.hint = (
                f"{tool.name} is stored of {other.source!r}, which is not in these settings;"
                f" `spindle remove {other.source}` forgets it"
            )
            return


def pins_in_force(
    stored: Pins | None, known: Sequence[StoredTool], *, pinned: bool, is_new: bool
) -> Pins | None:
    """Returns the pins that a sync keeps to; None where it takes all that the source offers. Adding a pinned
    source is to trust what it offers then, and pinning one later is to trust what was known."""
    if stored is not None or not pinned or is_new:
        return stored
    return {item.name: item.current.fingerprint for item in known if item.current}


def pins_after(
    pins: Pins | None, merged: Sequence[StoredTool], *, pinned: bool, accept: Collection[str] | bool
) -> Pins | None:
    """Returns the pins after a sync: those of before with all that was accepted. A tool that is gone keeps
    its own, for when it comes back. Accepting all under settings that do not pin ends the pinning."""
    if not pinned and (pins is None or accept is True):
        return None
    return {**(pins or {}), **{item.name: item.current.fingerprint for item in merged if item.current}}


async def instructions_after(
    store: ToolStore, name: str, said: str | None, taken: Taken, accept: Collection[str] | bool
) -> str | None:
    """Returns what is passed on of a source's instructions: of a pinned source, and of one whose instructions
    should not be believed, what a person accepted."""
    before = (await store.sources(name)).get(name)
    if instructions_name(name) in serious_names(taken.findings) and accept is not True:
        return before.instructions if before is not None else None
    if before is None or before.synced_at is None or accept is True:
        return said
    return before.instructions if await store.pins(name) is not None else said
