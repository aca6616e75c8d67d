"""The tools of this process on top of the tools of the workspace.

Functions that a program hands over exist in that process alone: in the store that all processes of
a workspace share, another program would find tools it cannot call, or in place of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from spindle.domain.tool import Tool, ToolSummary
from spindle.ports.store import PinChange, Pins, SourceState, StoredTool, ToolFilter, ToolStore
from spindle.stores.rows import name_conflict


class LayeredToolStore:
    """Keeps the tools of the sources in `own` in a private store, and all others in the shared one."""

    def __init__(self, shared: ToolStore, private: ToolStore, own: Collection[str]) -> None:
        self._shared = shared
        self._private = private
        self._own = frozenset(own)
        self._replacing = asyncio.Lock()

    async def catalog_version(self) -> int:
        # Both only grow, so their sum changes whenever one of them does.
        return await self._shared.catalog_version() + await self._private.catalog_version()

    def version_at_once(self) -> int | None:
        shared, private = self._shared.version_at_once(), self._private.version_at_once()
        return None if shared is None or private is None else shared + private

    async def tool(self, name: str) -> Tool | None:
        return await self._private.tool(name) or await self._shared.tool(name)

    async def names_ending_in(self, local_name: str) -> list[str]:
        found = await self._private.names_ending_in(local_name)
        return sorted({*found, *await self._shared.names_ending_in(local_name)})

    async def names(self) -> list[str]:
        return sorted({*await self._private.names(), *await self._shared.names()})

    async def names_by_source(self) -> dict[str, list[str]]:
        found = await self._shared.names_by_source()
        for source, names in (await self._private.names_by_source()).items():
            found[source] = sorted({*found.get(source, ()), *names})
        return found

    async def tools(self, where: ToolFilter) -> list[ToolSummary]:
        found = [*await self._private.tools(where), *await self._shared.tools(where)]
        return sorted(found, key=lambda summary: summary.name)

    async def search(self, query: str, limit: int) -> list[ToolSummary]:
        mine = await self._private.search(query, limit)
        others = await self._shared.search(query, limit)
        # Ranks of two indexes cannot be compared: take turns, the program's own tools first.
        turns = [pick for pair in zip(mine, others, strict=False) for pick in pair]
        both = min(len(mine), len(others))
        return [*turns, *mine[both:], *others[both:]][:limit]

    async def stored_tools(self, source: str) -> list[StoredTool]:
        return await self._store_of(source).stored_tools(source)

    async def sources(self, only: str | None = None) -> dict[str, SourceState]:
        if only is not None:
            return await self._store_of(only).sources(only)
        shared = await self._shared.sources()
        kept = {name: state for name, state in shared.items() if name not in self._own}
        return {**kept, **await self._private.sources()}

    async def pins(self, source: str) -> Pins | None:
        return await self._store_of(source).pins(source)

    async def replace_tools(
        self, state: SourceState, tools: Sequence[StoredTool], pins: PinChange | None = None
    ) -> bool:
        # One at a time: two concurrent syncs would each miss the other's names.
        async with self._replacing:
            await self._refuse_conflicts(state.name, tools)
            return await self._store_of(state.name).replace_tools(state, tools, pins)

    async def _refuse_conflicts(self, source: str, tools: Sequence[StoredTool]) -> None:
        other = self._shared if source in self._own else self._private
        for stored in tools:
            clash = await other.tool(stored.name)
            mine = stored.current or stored.held
            if clash is not None and mine is not None:
                raise name_conflict(stored.name, clash.spec.place, mine.spec.place)

    async def note_synced(self, state: SourceState) -> None:
        await self._store_of(state.name).note_synced(state)

    async def note_failure(self, source: str, kind: str, error: str) -> None:
        await self._store_of(source).note_failure(source, kind, error)

    async def forget_source(self, source: str) -> None:
        await self._store_of(source).forget_source(source)

    def _store_of(self, source: str) -> ToolStore:
        return self._private if source in self._own else self._shared
