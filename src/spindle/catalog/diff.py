"""The changes that a sync makes, and those that a pinned source may not make by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from spindle.domain.json_schema import JsonObject, is_object
from spindle.domain.records import fields_of
from spindle.domain.tool import Tool
from spindle.ports.store import StoredTool


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
    error: JsonObject | None = None
    seconds: float = 0.0

    @property
    def differs(self) -> bool:
        """True if anything changed."""
        return bool(self.added or self.removed or self.changed or self.held)

    def to_dict(self) -> JsonObject:
        """Returns the report as JSON."""
        return fields_of(self) | {
            "changed": [change.to_dict() for change in self.changed],
            "held": [change.to_dict() for change in self.held],
            "seconds": round(self.seconds, 3),
        }


def merge(
    source: str,
    known: Sequence[StoredTool],
    found: Sequence[Tool],
    *,
    trusted: bool,
    accept: Collection[str] | bool = (),
) -> tuple[list[StoredTool], SyncReport]:
    """Returns the tools to store, and a report. Of a source that is not trusted, a definition that is new or
    different is held back unless `accept` has its name (True: any). Where one is held already, only that one
    is accepted: the one that a person has seen, not the source's latest."""
    report = SyncReport(source)
    before = {stored.name: stored for stored in known}
    merged: list[StoredTool] = []
    for tool in found:
        stored = before.pop(tool.name, None)
        current = stored.current if stored else None
        if current is not None and current.fingerprint == tool.fingerprint:
            merged.append(StoredTool(tool.name, current=tool))
            continue
        change = ToolChange(tool.name, changed_fields(current, tool))
        if not (trusted or _accepted(tool, stored, accept)):
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
    reports = dict(zip(names, await asyncio.gather(*map(sync, names)), strict=True))
    latest = [*reports.values()]
    while any(report.removed for report in latest):
        latest = [await sync(name) for name in names if name in conflicts]
        reports.update((report.source, report) for report in latest)
    return [*reports.values()]
