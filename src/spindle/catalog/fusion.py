"""One list out of two: tools found by their words, and tools found by meaning."""

from __future__ import annotations

from collections.abc import Sequence

from spindle.catalog.tool_texts import spoken
from spindle.domain.tool import ToolSummary

DEPTH = 100
"""So many tools of each list are looked at, or as many as are asked for."""
# A tool in place n of a list, from 0 on, has 1 / (SMOOTH + n) of it. Meaning counts MEANING, words as much as
# they say of the question: where no tool has more than a word or two of it, the list of words is one of
# accidents. `python benchmarks/search.py learn` tries pairs of both numbers on what may be looked at.
SMOOTH = 4
MEANING = 0.3


def fused(
    query: str,
    by_words: Sequence[ToolSummary],
    by_meaning: Sequence[ToolSummary],
    smooth: float = SMOOTH,
    weight: float = MEANING,
) -> list[ToolSummary]:
    """Returns all tools of both lists, those that are near the top of both first. The more of the query
    a tool says, the more words count. A tool whose own name is exactly the query stays the first."""
    if not by_meaning:
        return list(by_words)
    said = max((tool.said for tool in by_words), default=0.0) or weight
    scores: dict[str, float] = {}
    known: dict[str, ToolSummary] = {}
    for counts, found in ((said, by_words), (weight, by_meaning)):
        for place, tool in enumerate(found):
            known.setdefault(tool.name, tool)
            scores[tool.name] = scores.get(tool.name, 0.0) + counts / (smooth + place)
    ranked = sorted(known, key=lambda name: -scores[name])
    if by_words and _is_called(by_words[0], query):
        first = by_words[0].name
        ranked = [first, *(name for name in ranked if name != first)]
    return [known[name] for name in ranked]


def _is_called(tool: ToolSummary, query: str) -> bool:
    wanted = spoken(query).replace(" ", "")
    return wanted != "" and spoken(tool.name.removeprefix(f"{tool.source}.")).replace(" ", "") == wanted
