"""Finds the tools, and the saved flows, that words are about, with the catalog's own search."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from spindle.domain.identity import Principal
from spindle.domain.tool import Tool, ToolSpec
from spindle.drafting.fitting import FITS, fit
from spindle.errors import NotFoundError, SpindleError
from spindle.flows.signature import input_schema
from spindle.ports.store import ToolFilter

if TYPE_CHECKING:
    from spindle.calls.permissions import Visible
    from spindle.catalog.catalog import Catalog
    from spindle.domain.tool import ToolSummary
    from spindle.flows.definition import FlowDefinition

LOOKED_AT: Final = 50
"""The number of search results among which saved flows are looked for."""

_CLAUSE = re.compile(r"[,;:.!?]\s|\b(?:and|then|after|before|afterwards|finally)\b", re.IGNORECASE)
MOST_CLAUSES: Final = 8


class Finder:
    """Searches the tools that one principal may use."""

    def __init__(
        self, catalog: Catalog, visible: Visible, principal: Principal, patterns: Sequence[str]
    ) -> None:
        self._catalog = catalog
        self._visible = visible
        self._principal = principal
        self._patterns = patterns

    async def make_ready(self) -> None:
        """Discovers the tools of sources that were never asked; skips a source that fails."""
        await self._catalog.make_ready(self._catalog.sources.names, self._principal, may_interrupt=False)
        await self._catalog.look_again()

    async def ask_for_consent(self) -> None:
        """Raises the request for a consent that a source wants before it lists its tools, if there is one."""
        catalog = self._catalog
        unlisted = set(catalog.unsynced()) & set(await catalog.consents.waiting(self._principal))
        for source in sorted(unlisted):
            await catalog.consents.require(source, self._principal)

    async def find(self, name: str) -> Tool:
        """Returns the tool of this name, if it may be used. Raises NotFoundError."""
        tool = await self._catalog.find(name, self._principal, self._sees)
        if not self._is_usable(tool.name):
            raise NotFoundError(f"there is no tool {name!r}", tool=name)
        return tool

    async def tools(self, words: str, most: int) -> list[Tool]:
        """Returns all tools, or if there are more than `most`, those that the words are about."""
        every = [item for item in await self._catalog.tools(ToolFilter()) if self._may_be(item)]
        return await self._whole(every if len(every) <= most else await self._searched(words, most))

    async def near(self, name: str, most: int) -> list[Tool]:
        """Returns tools that an unknown name may mean."""
        found = [item for item in await self._catalog.search(name, most) if self._may_be(item)]
        return await self._whole(found)

    async def flows(self, words: str) -> list[Tool]:
        """Returns flows that say what the words say, the best first."""
        found = [item for item in await self._catalog.search(words, LOOKED_AT) if item.kind == "flows"]
        tools = await self._whole([item for item in found if self._may_be(item)])
        fits = [(fit(words, tool), -place, tool) for place, tool in enumerate(tools)]
        return [
            tool for share, _, tool in sorted(fits, key=lambda item: item[:2], reverse=True) if share >= FITS
        ]

    async def _searched(self, words: str, most: int) -> list[ToolSummary]:
        """Searches by all the words and by each part of the request, and takes results in turn: a request
        for three things would otherwise find many tools for the one that it says most about."""
        queries = [words, *(part for part in _CLAUSE.split(words) if part.strip())][: MOST_CLAUSES + 1]
        lists = [
            [item for item in await self._catalog.search(query, most * 2) if self._may_be(item)]
            for query in dict.fromkeys(queries)
        ]
        found: dict[str, ToolSummary] = {}
        for place in range(max(map(len, lists), default=0)):
            for listed in lists:
                if place < len(listed) and len(found) < most:
                    found.setdefault(listed[place].name, listed[place])
        return list(found.values())

    async def _whole(self, found: Sequence[ToolSummary]) -> list[Tool]:
        tools: list[Tool] = []
        for item in found:
            try:
                tools.append(await self._catalog.find(item.name, self._principal, self._sees))
            except SpindleError:
                continue  # gone since it was listed
        return tools

    def _may_be(self, item: ToolSummary) -> bool:
        return not item.held and self._is_usable(item.name) and self._sees(item.name)

    def _is_usable(self, name: str) -> bool:
        return not self._patterns or any(fnmatchcase(name, pattern) for pattern in self._patterns)

    def _sees(self, name: str) -> bool:
        return self._visible(self._principal, name)


def saved_for(words: str, flow: FlowDefinition) -> FlowDefinition:
    """Returns the flow as it should be saved, so that the same words find it again."""
    spec = ToolSpec(flow.name, flow.description, input_schema(dict(flow.inputs)))
    if fit(words, Tool(flow.name, "flows", "flows", spec, spec.fingerprint)) >= FITS:
        return flow
    return replace(flow, description=f"{flow.description}\n\nFor: {words}".strip())
