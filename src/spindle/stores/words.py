"""Text as words, the same for every store: what is indexed of a tool, and what is looked for."""

from __future__ import annotations

import re

from spindle.domain.json_schema import property_texts
from spindle.domain.tool import Tool, ToolSummary
from spindle.stores.rows import storable

_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
WORD = re.compile(r"[^\W_]+")
_STOP = frozenset(
    "a an and are as at by for from how i in is it me my of on or that the to use using what with".split()  # noqa: SIM905
)

CROWD = 1000
"""So many tools are ranked at most; ranking every tool of a large catalog would take too long."""

_PARAMETER_TEXT_LIMIT = 4000
_QUERY_LIMIT = 1000
_TERM_LIMIT = 12


def words(text: str) -> list[str]:
    """Lower-case words, `snake_case` and `camelCase` taken apart."""
    return [word.lower() for word in WORD.findall(_HUMPS.sub(" ", text))]


def index_row(tool: Tool) -> tuple[str, ...]:
    """What is indexed of a tool: name, tags, description, parameters. A name is there whole and in its
    parts."""
    name = f"{tool.name} {' '.join(words(tool.name))} {tool.spec.title or ''}"
    texts = (name, " ".join(tool.spec.tags), tool.description, _parameters(tool))
    return tuple(storable(text) for text in texts)


def _parameters(tool: Tool) -> str:
    shared = tool.spec.definitions.schemas if tool.spec.definitions is not None else None
    found: list[str] = []
    size = 0
    for text in property_texts(tool.spec.input_schema, shared):
        found.append(" ".join(words(text[:_PARAMETER_TEXT_LIMIT])))
        size += len(found[-1]) + 1
        if size > _PARAMETER_TEXT_LIMIT:
            break
    return " ".join(found)[:_PARAMETER_TEXT_LIMIT]


def query_words(query: str) -> list[str]:
    return words(query[:_QUERY_LIMIT])


def telling(terms: list[str]) -> list[str]:
    """Those words of a query that say something, or all if none does."""
    return list(dict.fromkeys(term for term in terms if term not in _STOP) or terms)[:_TERM_LIMIT]


def exact_first(found: list[ToolSummary], terms: list[str]) -> list[ToolSummary]:
    """A tool whose own name is exactly what was typed comes first, whatever the index thinks of it."""
    wanted = "".join(terms)
    return sorted(
        found, key=lambda summary: "".join(words(summary.name.removeprefix(f"{summary.source}."))) != wanted
    )
