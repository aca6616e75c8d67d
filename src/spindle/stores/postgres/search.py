"""How words find tools in PostgreSQL's full-text index."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import TYPE_CHECKING

from spindle.domain.tool import Tool, ToolSummary
from spindle.stores.rows import summary_from_row
from spindle.stores.words import CROWD, WORD, exact_first, index_row, query_words, telling

if TYPE_CHECKING:
    from spindle.stores.postgres.connection import Connection, Database

# PostgreSQL takes no words over 2 KB and no document over 1 MB.
_WORD_LIMIT = 200
_TEXT_LIMIT = 20_000


def document_of(tool: Tool) -> tuple[str, ...]:
    """Name, tags, description and parameters as plain words, which is all that PostgreSQL's own parser
    gets to see: it would take `files.read` for the name of a host."""
    return tuple(_plain(text) for text in index_row(tool))


def _plain(text: str) -> str:
    return " ".join(word[:_WORD_LIMIT] for word in WORD.findall(_folded(text[:_TEXT_LIMIT])))


def _folded(text: str) -> str:
    """In small letters, without accents."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", text.lower())
    return "".join(character for character in apart if not unicodedata.combining(character))


async def search(connection: Connection, database: Database, query: str, limit: int) -> list[ToolSummary]:
    """Tools that have all words, then tools that have some; each word may be a beginning."""
    terms = query_words(query)
    useful = [plain for term in telling(terms) for plain in _plain(term).split()]
    if not useful or limit <= 0:
        return []
    found = await _match(connection, database, useful, " & ", limit)
    if len(found) < limit and len(useful) > 1:
        known = {summary.name for summary in found}
        rest = await _match(connection, database, useful, " | ", limit)
        found += [summary for summary in rest if summary.name not in known]
    return exact_first(found, terms)[:limit]


def _expression(terms: Iterable[str], joiner: str, where: str = "") -> str:
    # Each word is quoted, so nothing a user types is read as query syntax.
    return joiner.join(f"'{term}':*{where}" for term in terms)


async def _match(
    connection: Connection, database: Database, terms: list[str], joiner: str, limit: int
) -> list[ToolSummary]:
    everywhere = _expression(terms, joiner)
    cursor = await connection.execute(
        database.sql(_COUNT), {"expression": everywhere, "crowd": CROWD + 1}, binary=True
    )
    row = await cursor.fetchone()
    assert row is not None
    if row[0] <= CROWD:
        return await _ranked(connection, database, everywhere, terms, limit)
    # Words that thousands of tools have tell little: names and tags (A, B) that have them do, and of
    # the others some are as good as all.
    found = await _ranked(connection, database, _expression(terms, joiner, "AB"), terms, limit)
    known = {summary.name for summary in found}
    if len(found) < limit:
        rest = await _ranked(connection, database, everywhere, terms, limit)
        found += [item for item in rest if item.name not in known]
    return found[:limit]


async def _ranked(
    connection: Connection, database: Database, expression: str, terms: list[str], limit: int
) -> list[ToolSummary]:
    values = {
        "expression": expression,
        "terms": [_expression([term], "") for term in terms],
        "crowd": CROWD,
        "limit": limit,
    }
    cursor = await connection.execute(database.sql(_SELECT), values, binary=True)
    return [summary_from_row(row) for row in await cursor.fetchall()]


_CONFIGURATION = "'{schema}.words'"
_COUNT = f"""
    SELECT count(*) FROM (
        SELECT 1 FROM {{schema}}.tool_search
        WHERE document @@ to_tsquery({_CONFIGURATION}, %(expression)s) LIMIT %(crowd)s
    ) AS matching
"""  # noqa: S608 - only constants are put into the statement
# ts_rank knows nothing of how rare a word is, which says most about it. So each word is ranked by itself,
# and counts for the more the fewer tools have it. The weights, of parameters (D), description, tags and
# name (A), lie as close together as the ones for SQLite do after BM25 has dampened them.
_SELECT = f"""
    WITH term AS MATERIALIZED (
        SELECT word, ln(1 + (greatest(total - having_it, 0) + 0.5) / (having_it + 0.5)) AS worth
        FROM (
            SELECT word,
                   (SELECT count(*) FROM {{schema}}.tool_search) AS total,
                   (SELECT count(*) FROM (SELECT 1 FROM {{schema}}.tool_search
                                          WHERE document @@ word LIMIT %(crowd)s) AS those) AS having_it
            FROM unnest(%(terms)s::text[]) AS typed,
                 LATERAL to_tsquery({_CONFIGURATION}, typed) AS word
        ) AS counted
    ), hit AS MATERIALIZED (
        SELECT tool, document FROM {{schema}}.tool_search
        WHERE document @@ to_tsquery({_CONFIGURATION}, %(expression)s) LIMIT %(crowd)s
    ), best AS (
        SELECT tool, (SELECT sum(worth * ts_rank('{{0.5, 0.8, 0.9, 1}}', document, word, 1)) FROM term)
               AS rank
        FROM hit
    )
    SELECT tools.name, tools.source, tools.kind, tools.description, tools.tags, tools.held IS NOT NULL
    FROM best JOIN {{schema}}.tools ON tools.id = best.tool
    ORDER BY best.rank DESC, tools.name LIMIT %(limit)s
"""  # noqa: S608 - only constants are put into the statement
