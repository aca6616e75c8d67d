"""The search for everything, at the top of every page."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from spindle.console.access_rules import access_rules
from spindle.console.rendering import cut
from spindle.console.screen import Look, Screen
from spindle.console.screens.flows import flow_lines
from spindle.console.source_lines import source_lines
from spindle.errors import NotFoundError
from spindle.serving.run_control import find_run
from spindle.settings.provenance import written_settings

TOOLS: Final = 8
OTHERS: Final = 4
NEWEST: Final = 200
"""Runs that are looked through."""
_ID: Final = 32
"""Characters of the id of a run."""


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
    flows = await _flows(look, lower)
    shown = {hit.name for hit in flows}  # a flow is a tool as well, and listed once
    tools = [
        tool
        for tool in await look.app.search(words, limit=50)
        if look.sees(tool.name) and tool.name not in shown
    ]
    found += [
        SearchHit("tool", tool.name, tool.headline, f"/tools/{quote(tool.name, safe='')}")
        for tool in tools[:TOOLS]
    ]
    found += [*flows, *await _runs(look, lower)]
    return found + (await _of_administrators(look, lower) if look.principal.admin else [])


async def _flows(look: Look, words: str) -> list[SearchHit]:
    lines = [line for line in await flow_lines(look) if words in line.name.lower()]
    return [
        SearchHit("flow", line.name, cut(line.description, 80) or "flow", line.path)
        for line in lines[:OTHERS]
    ]


async def _runs(look: Look, words: str) -> list[SearchHit]:
    """The newest runs of something with these words in its name, and the run whose id begins with them."""
    newest = await look.app.store.runs(limit=NEWEST, principal=look.whose)
    named = [run for run in newest if words in run.name.lower() or run.id.startswith(words)]
    if len(words) == _ID and words not in {run.id for run in named}:
        with contextlib.suppress(NotFoundError):
            named.insert(0, await find_run(look.app, words, look.principal))
    return [
        SearchHit("run", run.name, f"{run.status}, run {run.id[:8]}", f"/runs/{quote(run.id, safe='')}")
        for run in named[:OTHERS]
    ]


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
