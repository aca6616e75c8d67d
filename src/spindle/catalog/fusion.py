"""One list out of two: tools found by their words, and tools found by meaning."""

from __future__ import annotations

from collections.abc import Sequence

from spindle.catalog.tool_texts import spoken
from spindle.domain.tool import ToolSummary

DEPTH = 100
"""So many tools of each list are looked at, or as many as are asked for."""
MEANING = 0.2
"""The worth of being nearer by the usual distance, in what a tool says of the question. `python
benchmarks/search.py learn` tries others on the questions that may be looked at."""


def fused(
    query: str,
    by_words: Sequence[ToolSummary],
    by_meaning: Sequence[ToolSummary],
    weight: float = MEANING,
) -> list[ToolSummary]:
    """Returns all tools of both lists, the best first by what they say of the query and how near they are to
    it. A tool whose own name is exactly the query stays the first."""
    if not by_meaning:
        return list(by_words)
    known = {tool.name: tool for tool in (*by_meaning, *by_words)}
    scores = {tool.name: weight * tool.near for tool in by_meaning}
    for tool in by_words:
        scores[tool.name] = scores.get(tool.name, 0.0) + tool.said
    ranked = sorted(scores, key=lambda name: -scores[name])
    if by_words and _is_called(by_words[0], query):
        first = by_words[0].name
        ranked = [first, *(name for name in ranked if name != first)]
    return [known[name] for name in ranked]


def _is_called(tool: ToolSummary, query: str) -> bool:
    wanted = spoken(query).replace(" ", "")
    return wanted != "" and spoken(tool.name.removeprefix(f"{tool.source}.")).replace(" ", "") == wanted
