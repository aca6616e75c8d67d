"""How words find tools in SQLite's full-text index."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable

from spindle.domain.json_schema import property_texts
from spindle.domain.tool import Tool, ToolSummary
from spindle.stores.rows import storable, summary_from_row

_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORDS = re.compile(r"[^\W_]+")
_STOP = frozenset(
    "a an and are as at by for from how i in is it me my of on or that the to use using what with".split()  # noqa: SIM905
)

# Weights of name, tags, description, parameters: a hit in the name says most.
_RANK = "bm25(tool_search, 12.0, 5.0, 3.0, 1.0)"

_PARAMETER_TEXT_LIMIT = 4000
_QUERY_LIMIT = 1000
_TERM_LIMIT = 12
_CROWD = 1000
"""So many tools are ranked at most; ranking every tool of a large catalog would take too long."""


def words(text: str) -> list[str]:
    """Lower-case words, `snake_case` and `camelCase` taken apart."""
    return [word.lower() for word in _WORDS.findall(_HUMPS.sub(" ", text))]


def index_row(tool: Tool) -> tuple[str, ...]:
    """What is indexed of a tool. A name is there whole and in its parts."""
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


def search(connection: sqlite3.Connection, query: str, limit: int) -> list[ToolSummary]:
    """Tools that have all words, then tools that have some; each word may be a beginning."""
    terms = words(query[:_QUERY_LIMIT])
    useful = list(dict.fromkeys(term for term in terms if term not in _STOP) or terms)[:_TERM_LIMIT]
    if not useful:
        return []
    found = _match(connection, _expression(useful, " AND "), limit)
    if len(found) < limit and len(useful) > 1:
        known = {summary.name for summary in found}
        rest = _match(connection, _expression(useful, " OR "), limit)
        found += [summary for summary in rest if summary.name not in known]
    wanted = "".join(terms)
    # A tool whose own name is exactly what was typed comes first, whatever the index thinks of it.
    found.sort(key=lambda summary: "".join(words(summary.name.removeprefix(f"{summary.source}."))) != wanted)
    return found[:limit]


def _expression(terms: Iterable[str], joiner: str) -> str:
    # Each word is quoted, so nothing a user types is read as query syntax.
    return joiner.join(f'"{term}"*' for term in terms)


def _match(connection: sqlite3.Connection, expression: str, limit: int) -> list[ToolSummary]:
    [[matching]] = connection.execute(_COUNT, (expression, _CROWD + 1))
    if matching <= _CROWD:
        return _ranked(connection, expression, limit)
    # Words that thousands of tools have tell little: names and tags that have them do, and of the
    # others some are as good as all.
    found = _ranked(connection, f"{{name tags}} : ({expression})", limit)
    known = {summary.name for summary in found}
    if len(found) < limit:
        found += [item for item in _ranked(connection, expression, limit) if item.name not in known]
    return found[:limit]


def _ranked(connection: sqlite3.Connection, expression: str, limit: int) -> list[ToolSummary]:
    rows = connection.execute(_SELECT, (expression, _CROWD, limit))
    return [summary_from_row(row) for row in rows]


_COUNT = "SELECT count(*) FROM (SELECT 1 FROM tool_search WHERE tool_search MATCH ? LIMIT ?)"
_SELECT = f"""
    SELECT tools.name, tools.source, tools.kind, tools.description, tools.tags, tools.held IS NOT NULL
    FROM (SELECT rowid, rank
          FROM (SELECT rowid, {_RANK} AS rank FROM tool_search WHERE tool_search MATCH ? LIMIT ?)
          ORDER BY rank LIMIT ?) hit
    JOIN tools ON tools.id = hit.rowid
    ORDER BY hit.rank, tools.name
"""  # noqa: S608 - only constants are put into the statement
