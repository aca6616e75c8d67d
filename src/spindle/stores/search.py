"""The search index, in SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence

from spindle.domain.tool import ToolSummary
from spindle.stores.ranking import BEGINNINGS, Matches, Posting, Query, first, slips
from spindle.stores.rows import SharedRows, summary_from_row, tool_from_row
from spindle.stores.search_index import posting_rows, weighed_words
from spindle.stores.sql import select
from spindle.stores.sql_tools import TOOL
from spindle.stores.sqlite_queries import sql


def search(connection: sqlite3.Connection, text: str, limit: int) -> list[ToolSummary]:
    """Returns the tools that match the text, the best first."""
    query = Query.of(text)
    if not query.terms or limit <= 0:
        return []
    found, whole = _first(connection, query, limit)
    # A sync may have replaced tools after they were ranked.
    return found if whole else _first(connection, query, limit)[0]


def _first(connection: sqlite3.Connection, query: Query, limit: int) -> tuple[list[ToolSummary], bool]:
    """The best tools, and True if all that were ranked still exist."""
    numbers = _ranked(connection, query, limit)
    rows = {row[0]: row[1:] for row in connection.execute(_SUMMARIES, (json.dumps(list(numbers)),))}
    found = [summary_from_row(rows[number], said) for number, said in numbers.items() if number in rows]
    return first(found, query, limit), len(found) == len(numbers)


def _ranked(connection: sqlite3.Connection, query: Query, limit: int) -> dict[int, float]:
    found = Matches()
    found.add(_having(connection, query.words()))
    for term in query.unknown(found):
        beginnings = connection.execute(_BEGINNING, (term, term + "\U0010ffff", BEGINNINGS)).fetchall()
        if found.may_begin(term, beginnings):
            continue
        found.may_be_meant(term, _having(connection, slips(term)))
        found.add(_having(connection, found.missing_synonyms(term)))
    [[total]] = connection.execute("SELECT count(*) FROM tools")
    return query.ranked(found, total, limit)


def _having(connection: sqlite3.Connection, words: Sequence[str]) -> list[Posting]:
    return connection.execute(_EXACT, (json.dumps(words),)).fetchall() if words else []


def index(connection: sqlite3.Connection, source: str, tools: Iterable[tuple[str, dict[str, int]]]) -> None:
    """Adds tools, which are already stored, to the search index."""
    ids = dict(connection.execute("SELECT name, id FROM tools WHERE source = ?", (source,)))
    rows = posting_rows((ids[name], weighed) for name, weighed in tools)
    connection.executemany(
        "INSERT INTO search_words (source, word, tools, weights) VALUES (?, ?, ?, ?)",
        ((source, *row) for row in rows),
    )


def index_all(connection: sqlite3.Connection) -> None:
    """Rebuilds the whole index from the stored tools."""
    connection.execute("DELETE FROM search_words")
    for (source,) in connection.execute("SELECT name FROM sources").fetchall():
        shared = SharedRows(connection)
        rows = connection.execute(_TOOLS, (source,)).fetchall()
        index(connection, source, ((row[0], weighed_words(tool_from_row(row, shared))) for row in rows))


_EXACT = "SELECT word, tools, weights FROM search_words WHERE word IN (SELECT value FROM json_each(?))"
_BEGINNING = "SELECT word, tools, weights FROM search_words WHERE word > ? AND word < ? LIMIT ?"
_SUMMARIES = """
    SELECT id, name, source, kind, description, tags, held IS NOT NULL FROM tools
    WHERE id IN (SELECT value FROM json_each(?))
"""
_TOOLS = f"{sql(select('tools', TOOL))} WHERE source = ? AND definition IS NOT NULL"
