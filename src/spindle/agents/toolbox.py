"""The tools that the model sees, and their names.

A model is shown all tools that the agent may use or, if there are too many, two tools to search for those
that it needs. It knows tools by names that every provider accepts; a map leads back, and the meaning of a
name is kept with each answer, so that a catalog that changes meanwhile changes nothing about calls that were
asked for.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING

from spindle.agents.own_tools import RESERVED, SEARCH
from spindle.domain.json_schema import JsonObject
from spindle.domain.names import LONGEST, may_name, served_names
from spindle.errors import AuthError, NotFoundError, SpindleError, did_you_mean
from spindle.ports.store import ToolFilter
from spindle.remedies import Remedy
from spindle.schemas.models import arguments_of, model_description, model_schema

if TYPE_CHECKING:
    from spindle.calls.permissions import Visible
    from spindle.catalog.catalog import Catalog
    from spindle.code_mode.library import ToolLibrary
    from spindle.domain.call import Host
    from spindle.domain.tool import Tool, ToolSummary

MAX_NAMED = 20


@dataclass(frozen=True, slots=True)
class Offered:
    """A tool as the model sees it."""

    name: str
    tool: str
    """Its name in the catalog."""
    description: str
    schema: JsonObject


@dataclass(slots=True)
class _View:
    """The tools that the agent may use, at one version of the catalog."""

    version: int
    summaries: Mapping[str, ToolSummary]
    given: Mapping[str, str]
    """By the name in the catalog, the name for models."""
    meant: Mapping[str, str]
    every: Sequence[ToolSummary]
    """All tools, also those that the agent may not use."""
    whole: dict[str, Tool] = field(default_factory=dict[str, "Tool"])
    library: ToolLibrary | None = None


class Toolbox:
    """The tools of one run, which grow as the model searches."""

    def __init__(
        self,
        catalog: Catalog,
        visible: Visible,
        host: Host,
        patterns: Sequence[str] | None,
        most: int,
        directly: Callable[[str], bool] | None = None,
    ) -> None:
        """`patterns` are over names of tools; none: all, and None: no tools. `directly`: the model calls only
        these by itself, and all others by programs."""
        self._catalog = catalog
        self._host = host
        self._principal = host.principal
        self._sees = partial(visible, host.principal)
        self._patterns = patterns
        self._most = most
        self._directly = directly
        self._view: _View | None = None
        self._unconnected: dict[str, AuthError] = {}
        """By source, why there is no consent to list its tools."""
        self._loaded: dict[str, None] = {}
        """Tools of a large catalog that the model has found, the most recent last."""
        self.removed: set[str] = set()
        """Tools that failed too often."""

    # --- what the model is shown

    async def offered(self) -> tuple[list[Offered], bool]:
        """Returns the tools, and whether the model must search for others."""
        if self._patterns is None:
            return [], False
        view = await self._current()
        if self._directly is not None:
            names = list(filter(self._directly, view.summaries))
        elif self._is_large(view):
            names = [name for name in self._loaded if name in view.summaries]
        else:
            names = list(view.summaries)
        kept = [name for name in names if name not in self.removed]
        found = await self._whole(view, kept)
        offered = [
            Offered(view.given[tool.name], tool.name, model_description(tool), model_schema(tool))
            for tool in found
        ]
        return offered, self._directly is None and self._is_large(view)

    async def library(self) -> ToolLibrary:
        """Returns the tools as programs call them."""
        from spindle.code_mode.library import ToolLibrary

        view = await self._current()
        if view.library is None:

            async def find(name: str) -> Tool:
                found = await self._whole(view, [name])
                if not found:
                    raise NotFoundError(f"there is no tool {name!r} any more", tool=name)
                return found[0]

            usable = [name for name in view.summaries if self._directly is None or not self._directly(name)]
            view.library = ToolLibrary(view.every, frozenset(usable), find)
        return view.library

    def _is_large(self, view: _View) -> bool:
        return len(view.summaries) > self._most

    async def meant_by(self, name: str) -> str:
        """Returns the tool that a model means by this name. Raises NotFoundError."""
        if self._patterns is None:
            raise NotFoundError(f"there is no tool {name!r}", hint="there are no tools: answer", tool=name)
        view = self._view or await self._current()
        tool = view.meant.get(name) or (name if name in view.summaries else None)
        if tool is not None and tool in self.removed:
            raise NotFoundError(f"the tool {name!r} is no longer there, because it kept failing", tool=name)
        if tool is None:
            known = [given for full, given in view.given.items() if full not in self.removed]
            hint = did_you_mean(name, known, self._some(view, known))
            raise NotFoundError(f"there is no tool {name!r}", hint=hint, tool=name)
        return tool

    def kind_of(self, tool: str) -> str | None:
        """Returns the kind of source of a tool that the model may call."""
        found = self._view.summaries.get(tool) if self._view is not None else None
        return None if found is None else found.kind

    async def arguments(self, tool: str, sent: JsonObject) -> JsonObject:
        """Returns the arguments that a model sent under the names that the tool has for them."""
        whole = await self._whole(self._view or await self._current(), [tool])
        return arguments_of(whole[0], sent) if whole else sent

    def _some(self, view: _View, known: list[str]) -> str:
        if self._is_large(view):
            return f"find tools with {SEARCH}"
        some = sorted(known)[:MAX_NAMED]
        return f"there are: {', '.join(some) or 'none'}" + (", …" if len(known) > len(some) else "")

    # --- looking for tools

    async def search(self, query: str, limit: int) -> list[JsonObject]:
        """Returns the tools that fit the words best, as JSON. `load` is called with this result, also when
        it comes from the record."""
        view = await self._current()
        asked = limit
        while True:
            found = await self._catalog.search(query, asked)
            usable = [item for item in found if item.name in view.summaries and item.name not in self.removed]
            if len(usable) >= limit or len(found) < asked:
                break
            asked *= 4
        return [
            {"tool": item.name, "name": view.given[item.name], "description": item.headline}
            for item in usable[:limit]
        ]

    async def describe(self, name: str) -> JsonObject:
        full = await self.meant_by(name)
        view = await self._current()
        (tool,) = await self._whole(view, [full])
        return {
            "tool": full,
            "name": view.given[full],
            "description": model_description(tool),
            "input_schema": model_schema(tool),
        }

    def load(self, names: Sequence[str]) -> None:
        """Shows these tools to the model from now on; those loaded longest ago make room."""
        for name in names:
            self._loaded.pop(name, None)
            self._loaded[name] = None
        while len(self._loaded) > self._most:
            del self._loaded[next(iter(self._loaded))]

    # --- the catalog

    async def _current(self) -> _View:
        catalog = self._catalog
        await catalog.look_again()
        version = await catalog.stored_version.number()
        if self._view is None or self._view.version != version:
            every = {item.name: item for item in await catalog.tools(ToolFilter())}
            usable = {name: item for name, item in every.items() if self._is_usable(item)}
            # Named among all tools, so that a name does not depend on who is shown which.
            given = _unreserved(served_names(every))
            view = _View(version, usable, given, {given[name]: name for name in usable}, list(every.values()))
            if self._view is None:
                self._check_patterns(view, [name for name in every if self._sees(name)])
            self._view = view
        return self._view

    def _is_usable(self, item: ToolSummary) -> bool:
        fits = not self._patterns or any(fnmatchcase(item.name, pattern) for pattern in self._patterns)
        return fits and not item.held and self._sees(item.name)

    async def make_ready(self) -> None:
        """Discovers the tools of sources that were never asked. Those that want the principal's consent first
        ask for it, all at once. A source that fails, or that is refused the consent, is skipped."""
        if self._patterns is None:
            return
        catalog = self._catalog
        names = catalog.sources.names
        unlisted = set(catalog.unsynced()) & set(await catalog.consents.waiting(self._principal))
        asking = [name for name in names if name in unlisted and self._may_use(name)]
        quiet = [name for name in names if name not in unlisted]
        await catalog.make_ready(quiet, self._principal, may_interrupt=False)
        outcomes = await asyncio.gather(*map(self._listed, asking), return_exceptions=True)
        for source, outcome in zip(asking, outcomes, strict=True):
            if isinstance(outcome, AuthError):
                self._unconnected[source] = outcome
            elif outcome is not None:
                raise outcome

    async def _listed(self, source: str) -> None:
        """Asks one source for its tools, at a place of the run to which a consent can be given or refused."""

        async def make(_: Host) -> bool:
            await self._catalog.make_ready([source], self._principal, may_interrupt=True)
            return True

        await self._host.remember("tools of", source, make)

    def _may_use(self, source: str) -> bool:
        """True if the agent may be allowed a tool of this source, whose names are not known yet."""
        plain = not self._catalog.sources.table(source).get("prefix", True)
        named = [pattern for pattern in self._patterns or () if plain or may_name(pattern, source)]
        return bool(named or not self._patterns) and any(map(self._sees, [f"{source}.", *named]))

    async def _whole(self, view: _View, names: Sequence[str]) -> list[Tool]:
        found: list[Tool] = []
        for name in names:
            tool = view.whole.get(name)
            if tool is None:
                try:
                    tool = view.whole[name] = await self._catalog.find(name, self._principal, self._sees)
                except SpindleError:
                    continue  # gone since we looked; the next view will not have it
            found.append(tool)
        return found

    def _check_patterns(self, view: _View, seen: Sequence[str]) -> None:
        for pattern in self._patterns or ():
            if not any(fnmatchcase(name, pattern) for name in view.summaries):
                for source, error in self._unconnected.items():
                    if may_name(pattern, source):
                        raise error
                hint, remedy = did_you_mean(pattern, seen), Remedy("list_tools")
                raise NotFoundError(f"no tool matches {pattern!r}", hint=hint, remedy=remedy)


def _unreserved(given: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the names with another one for a tool that would have the name of an agent's own tool."""
    clashing = [full for full, name in given.items() if name in RESERVED]
    if not clashing:
        return given
    changed, taken = dict(given), set(given.values())
    for full in clashing:
        digest = hashlib.sha256(full.encode("utf-8", "surrogatepass")).hexdigest()
        length = next(n for n in range(8, LONGEST) if f"{given[full]}_{digest[:n]}" not in taken)
        changed[full] = f"{given[full]}_{digest[:length]}"
        taken.add(changed[full])
    return changed
