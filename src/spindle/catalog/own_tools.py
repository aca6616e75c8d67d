"""The stored tools of the sources that this process has in its settings.

Several processes may share a store and have other sources in their settings, or the same ones switched off.
None of them deletes what it does not know: it only does not see it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from spindle.catalog.fusion import DEPTH, fused
from spindle.errors import suggest

if TYPE_CHECKING:
    from spindle.catalog.meaning import MeaningSearch
    from spindle.domain.tool import Tool, ToolSummary
    from spindle.ports.store import SourceState, ToolFilter, ToolStore

_WIDER = 500
"""The results of a search to choose from, where some of the best belong to others."""


class OwnTools:
    """Reads the tools of the sources that `is_own` names."""

    def __init__(self, store: ToolStore, is_own: Callable[[str], bool]) -> None:
        self._store = store
        self._is_own = is_own

    async def tool(self, name: str) -> Tool | None:
        """Returns the accepted tool of this full name."""
        found = await self._store.tool(name)
        return found if found is not None and self._is_own(found.source) else None

    async def names_ending_in(self, local_name: str) -> list[str]:
        """Returns the full names of which this is the last part."""
        found = await self._store.names_ending_in(local_name)
        return [name for name in found if await self.tool(name) is not None]

    async def names(self) -> list[str]:
        """Returns the full names of all accepted tools."""
        return sorted(name for names in (await self.names_by_source()).values() for name in names)

    async def names_by_source(self) -> dict[str, list[str]]:
        """Returns the same names, by their source; only sources that have some."""
        found = await self._store.names_by_source()
        return {source: names for source, names in found.items() if self._is_own(source)}

    async def names_besides(self, source: str) -> list[str]:
        """Returns the full names of all accepted tools of other sources."""
        found = await self.names_by_source()
        return sorted(name for other, names in found.items() if other != source for name in names)

    async def tools(self, where: ToolFilter) -> list[ToolSummary]:
        """Returns the tools that fit the filter, by name."""
        return self._own(await self._store.tools(where))

    async def whole_tools(self, where: ToolFilter) -> list[Tool]:
        """Returns the same, each with all that is known of it."""
        wanted = {summary.name: summary.source for summary in await self.tools(where)}
        found: list[Tool] = []
        for source in sorted(set(wanted.values())):
            stored = await self._store.stored_tools(source)
            found += [item.current for item in stored if item.current and item.name in wanted]
        return sorted(found, key=lambda tool: tool.name)

    async def search(self, query: str, limit: int, meaning: MeaningSearch | None = None) -> list[ToolSummary]:
        """Returns the tools that fit the words best, best first; with a model, also those that fit in
        meaning."""
        if meaning is None or limit <= 0:
            return await self._by_words(query, limit)
        depth = max(limit, DEPTH)
        near = await meaning.near(query, depth, await self._store.catalog_version())
        return fused(query, await self._by_words(query, depth), self._own(near))[:limit]

    async def _by_words(self, query: str, limit: int) -> list[ToolSummary]:
        found = await self._store.search(query, limit)
        own = self._own(found)
        if len(own) < len(found):
            own = self._own(await self._store.search(query, max(limit, _WIDER)))[:limit]
        return own

    async def sources(self) -> dict[str, SourceState]:
        """Returns the states of those that were ever asked, by name."""
        return {name: state for name, state in (await self._store.sources()).items() if self._is_own(name)}

    async def has_held(self, source: str, name: str) -> bool:
        """True if a source has a tool of this name, accepted or not."""
        known = await self._store.stored_tools(source) if self._is_own(source) else []
        return any(stored.name == name for stored in known)

    async def not_accepted(self, accept: Collection[str] | bool) -> list[str]:
        """Returns what is to be said about tools that were to be accepted and do not exist."""
        named = () if isinstance(accept, bool) else accept
        known = await self.names() if named else []
        lines: list[str] = []
        for name in (name for name in named if name not in known):
            meant = suggest(name, known)
            lines.append(f"no tool {name!r} was accepted" + (f"; did you mean {meant!r}?" if meant else ""))
        return lines

    def _own(self, found: list[ToolSummary]) -> list[ToolSummary]:
        return [summary for summary in found if self._is_own(summary.source)]
