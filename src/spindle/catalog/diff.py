"""The changes that a sync makes, and those that a pinned source may not make by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from spindle.domain.finding import ToolFinding
from spindle.domain.json_schema import JsonObject, is_object
from spindle.domain.records import fields_of
from spindle.domain.tool import LeftOut, Loosened, Tool
from spindle.ports.store import Pins, StoredTool


@dataclass(frozen=True, slots=True)
class ToolChange:
    """A tool whose definition has changed; `fields` says where."""

    name: str
    fields: tuple[str, ...]

    def to_dict(self) -> JsonObject:
        """Returns the change as JSON."""
        return {"name": self.name, "fields": list(self.fields)}


@dataclass(slots=True)
class SyncReport:
    """The differences between a source's tools and those that were known. `held` waits for a person."""

    source: str
    tools: int = 0
    added: list[str] = field(default_factory=list[str])
    removed: list[str] = field(default_factory=list[str])
    changed: list[ToolChange] = field(default_factory=list[ToolChange])
    held: list[ToolChange] = field(default_factory=list[ToolChange])
    left_out: list[LeftOut] = field(default_factory=list[LeftOut])
    loosened: list[Loosened] = field(default_factory=list[Loosened])
    findings: list[ToolFinding] = field(default_factory=list[ToolFinding])
    """The texts of its tools that should not be believed, also of those that were accepted."""
    error: JsonObject | None = None
    seconds: float = 0.0

    @property
    def differs(self) -> bool:
        """True if anything changed."""
        return bool(self.added or self.removed or self.changed or self.held)

    def complaints(self) -> list[str]:
        """Returns a sentence on the failure of the source, or on each tool that is not taken as it is."""
        if self.error:
            return [str(self.error["message"])]
        left_out = [f"the tool {item.name} is left out: {item.reason}" for item in self.left_out]
        loosened = [f"{item.name} is loosened: {item.reason}" for item in self.loosened]
        return left_out + loosened + [self.sentence(item) for item in self.new_findings]

    @property
    def new_findings(self) -> list[ToolFinding]:
        """The findings about what is new, has changed, or waits to be accepted."""
        known = {*self.added, *(item.name for item in (*self.changed, *self.held))}
        return [
            item for item in self.findings if item.name in known or item.name.startswith(f"{self.source} (")
        ]

    def sentence(self, item: ToolFinding) -> str:
        """Returns a finding as a sentence that says what becomes of the tool."""
        is_held = item.is_serious and any(change.name == item.name for change in self.held)
        return f"{item.name} is held: {item.sentence}" if is_held else f"{item.name}: {item.sentence}"

    def to_dict(self) -> JsonObject:
        """Returns the report as JSON."""
        return fields_of(self) | {
            "changed": [change.to_dict() for change in self.changed],
            "held": [change.to_dict() for change in self.held],
            "left_out": [item.to_dict() for item in self.left_out],
            "loosened": [item.to_dict() for item in self.loosened],
            "findings": [item.to_dict() for item in self.findings],
            "seconds": round(self.seconds, 3),
        }


def merge(
    source: str,
    known: Sequence[StoredTool],
    found: Sequence[Tool],
    pins: Pins | None = None,
    accept: Collection[str] | bool = (),
    suspect: Collection[str] = (),
) -> tuple[list[StoredTool], SyncReport]:
    """Returns the tools to store, and a report. Of a source with pins, a definition that is new or
    different is held back unless `accept` has its name (True: any), and so it is of any source if `suspect`
    has it. Where one is held already, only that one is accepted: the one that a person has seen, not the
    source's latest."""
    report = SyncReport(source)
    before = {stored.name: stored for stored in known}
    merged: list[StoredTool] = []
    for tool in found:
        stored = before.pop(tool.name, None)
        current = stored.current if stored else None
        pin = None if pins is None else pins.get(tool.name)
        if current is not None and pins is not None and current.fingerprint != pin:
            current = None  # stored by somebody who did not know of the pins
        if current is not None and current.fingerprint == tool.fingerprint:
            merged.append(StoredTool(tool.name, current=tool))
            continue
        change = ToolChange(tool.name, changed_fields(current, tool))
        must_wait = pin != tool.fingerprint and (pins is not None or tool.name in suspect)
        if must_wait and not _accepted(tool, stored, accept):
            report.held.append(change)
            merged.append(StoredTool(tool.name, current=current, held=tool))
            continue
        if current is None:
            report.added.append(tool.name)
        else:
            report.changed.append(change)
        merged.append(StoredTool(tool.name, current=tool))
    report.removed = sorted(name for name, stored in before.items() if stored.current)
    report.tools = sum(1 for stored in merged if stored.current)
    return merged, report


def same_tools(known: Sequence[StoredTool], merged: Sequence[StoredTool]) -> bool:
    """True if nothing that is stored of any tool differs: not its place, nor its trail, nor its schemas as
    this version of Spindle repairs them."""
    return {item.name: _stored_parts(item) for item in known} == {
        item.name: _stored_parts(item) for item in merged
    }


def _stored_parts(item: StoredTool) -> list[Any]:
    tools = [tool for tool in (item.current, item.held) if tool is not None]
    parts = [(tool.fingerprint, tool.spec.place, tool.spec.metadata, tool.spec.repaired) for tool in tools]
    return [item.held is None, *parts]


def _accepted(tool: Tool, stored: StoredTool | None, accept: Collection[str] | bool) -> bool:
    if not (accept is True or (accept and tool.name in accept)):
        return False
    held = stored.held if stored else None
    return held is None or held.fingerprint == tool.fingerprint


def changed_fields(before: Tool | None, after: Tool) -> tuple[str, ...]:
    """Paths into the definition that differ, such as `input_schema.properties.path.type`."""
    if before is None:
        return ("new",)
    return tuple(_differences(before.spec.whole_definition(), after.spec.whole_definition(), ""))[:20]


def _differences(before: Any, after: Any, path: str) -> list[str]:
    if is_object(before) and is_object(after):
        found: list[str] = []
        for key in [*before, *(key for key in after if key not in before)]:
            found += _differences(before.get(key), after.get(key), f"{path}.{key}" if path else key)
        return found
    return [] if before == after else [path]


async def synced_together(
    names: Sequence[str], sync: Callable[[str], Awaitable[SyncReport]], conflicts: Collection[str]
) -> list[SyncReport]:
    """Syncs these sources side by side, and returns their reports in order.

    A name that one of them gave up may have been taken from another that came before it, by chance. So as
    long as names become free, those with a conflict (`conflicts` holds them at any moment) are asked again.
    """
    reports = dict(zip(names, await _side_by_side(map(sync, names)), strict=True))
    latest = [*reports.values()]
    while any(report.removed for report in latest):
        latest = [await sync(name) for name in names if name in conflicts]
        reports.update((report.source, report) for report in latest)
    return [*reports.values()]


async def _side_by_side(syncs: Iterable[Awaitable[SyncReport]]) -> list[SyncReport]:
    """Waits for all, each begun in a turn of the event loop of its own: to start one server takes
    milliseconds, and hundreds in one turn would make everybody else wait for all of them."""
    begun: list[asyncio.Future[SyncReport]] = []
    try:
        for sync in syncs:
            begun.append(asyncio.ensure_future(sync))
            await asyncio.sleep(0)
    except asyncio.CancelledError:
        for task in begun:
            task.cancel()
        raise
    return await asyncio.gather(*begun)
