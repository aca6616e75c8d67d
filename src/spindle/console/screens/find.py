"""The search for everything, at the top of every page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from spindle.console.access_rules import access_rules
from spindle.console.screen import Look, Screen
from spindle.console.source_lines import source_lines
from spindle.settings.provenance import written_settings

TOOLS: Final = 8
OTHERS: Final = 4


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One thing that fits."""

    kind: str
    name: str
    about: str
    path: str
    """Below `/console`."""


async def find(look: Look) -> Sequence[SearchHit]:
    """Returns what fits the words `q`, the best first."""
    words = look.query.get("q", "").strip()[:200]
    if not words:
        return []
    found: list[SearchHit] = []
    lower = words.lower()
    for line in await source_lines(look):
        if lower in line.name.lower() and len(found) < OTHERS:
            found.append(SearchHit("source", line.name, line.word, f"/sources/{quote(line.name, safe='')}"))
    tools = [tool for tool in await look.app.search(words, limit=50) if look.sees(tool.name)]
    found += [
        SearchHit("tool", tool.name, tool.headline, f"/tools/{quote(tool.name, safe='')}")
        for tool in tools[:TOOLS]
    ]
    return found + (await _of_administrators(look, lower) if look.principal.admin else [])


async def _of_administrators(look: Look, words: str) -> list[SearchHit]:
    """The groups and settings that fit, for those who may see them."""
    found = [
        SearchHit("access", name, "group", f"/tools?group={quote(name, safe='')}")
        for name in (await access_rules(look)).groups
        if words in name.lower()
    ][:OTHERS]
    lines = [item for item in written_settings(look.app.settings) if words in ".".join(item.path).lower()]
    for item in lines[:OTHERS]:
        name = ".".join(item.path)
        found.append(SearchHit("health", name, "setting", f"/health/settings?q={quote(name, safe='')}"))
    return found


SCREENS: Final = (Screen("/find", "find.html", find, ""),)
