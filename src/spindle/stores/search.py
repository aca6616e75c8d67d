"""How words find tools in SQLite's full-text index."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from spindle.domain.tool import ToolSummary
from spindle.stores.rows import summary_from_row
from spindle.stores.words import CROWD, exact_first, query_words, telling

# Weights of name, tags, description, parameters: a hit in the name says most.
_RANK = "bm25(tool_search, 12.0, 5.0, 3.0, 1.0)"


def search(connection: sqlite3.Connection, query: str, limit: int) -> list[ToolSummary]:
    """Tools that have all words, then tools that have some; each word may be a beginning."""
    terms = query_words(query)
    useful = telling(terms)
    if not useful:
        return []
    found = _match(connection, _expression(useful, " AND "), limit)
    if len(found) < limit and len(useful) > 1:
        known = {summary.name for summary in found}
        rest = _match(connection, _expression(useful, " OR "), limit)
        found += [summary for summary in rest if summary.name not in known]
    return exact_first(found, terms)[:limit]


def _expression(terms: Iterable[str], joiner: str) -> str:
    # Each word is quoted, so nothing a user types is read as query syntax.
    return joiner.join(f'"{term}"*' for term in terms)


def _match(connection: sqlite3.Connection, expression: str, limit: int) -> list[ToolSummary]:
    [[matching]] = connection.execute(_COUNT, (expression, CROWD + 1))
    if matching <= CROWD:
        return _ranked(connection, expression, limit)
    # Words that thousands of tools have tell little: names and tags that have them do, and of the
    # others some are as good as all.
    found = _ranked(connection, f"{{name tags}} : ({expression})", limit)
    known = {summary.name for summary in found}
    if len(found) < limit:
        found += [item for item in _ranked(connection, expression, limit) if item.name not in known]
    return found[:limit]


def _ranked(connection: sqlite3.Connection, expression: str, limit: int) -> list[ToolSummary]:
    rows = connection.execute(_SELECT, (expression, CROWD, limit))
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
