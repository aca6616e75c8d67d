"""The tools of the catalog, searched and filtered, and one tool in full."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spindle.console.paging import Page, page_of
from spindle.console.screen import Look, Screen
from spindle.ports.store import ToolFilter

if TYPE_CHECKING:
    from spindle.domain.tool import ToolSummary

FOUND: Final = 200
"""Tools that a search returns."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A value that a filter may have, and how many tools have it."""

    value: str
    count: int


@dataclass(frozen=True, slots=True)
class ToolPage:
    """The list."""

    page: Page[ToolSummary]
    total: int
    """Tools that this principal sees, without filters."""
    sources: Sequence[Choice]
    kinds: Sequence[Choice]
    tags: Sequence[Choice]


async def tools(look: Look) -> ToolPage:
    """Returns the tools that fit the address: `q`, `source`, `kind`, `tag`."""
    asked = look.query
    catalog = look.app.catalog
    seen = [tool for tool in await catalog.tools(ToolFilter()) if look.sees(tool.name)]
    words = asked.get("q", "").strip()
    found = seen
    if words:
        found = [tool for tool in await catalog.search(words, FOUND) if look.sees(tool.name)]
    for key, of in _FILTERS.items():
        if wanted := asked.get(key):
            found = [tool for tool in found if wanted in of(tool)]
    return ToolPage(
        page_of(found, asked),
        len(seen),
        _choices(name for tool in seen for name in _FILTERS["source"](tool)),
        _choices(name for tool in seen for name in _FILTERS["kind"](tool)),
        _choices(name for tool in seen for name in _FILTERS["tag"](tool)),
    )


def _source(tool: ToolSummary) -> tuple[str, ...]:
    return (tool.source,)


def _kind(tool: ToolSummary) -> tuple[str, ...]:
    return (tool.kind,)


def _tags(tool: ToolSummary) -> tuple[str, ...]:
    return tool.tags


_FILTERS: Final = {"source": _source, "kind": _kind, "tag": _tags}


def _choices(values: Iterable[str]) -> list[Choice]:
    counted = Counter(values)
    return [Choice(value, count) for value, count in sorted(counted.items())[:200]]


SCREENS: Final = (Screen("/tools", "tools.html", tools, "tools"),)
