"""The search index, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from spindle.domain.tool import ToolSummary
from spindle.stores.ranking import BEGINNINGS, Matches, Posting, Query, first, slips
from spindle.stores.rows import summary_from_row
from spindle.stores.search_index import posting_rows

if TYPE_CHECKING:
    from spindle.stores.postgres.connection import Statements


async def search(it: Statements, text: str, limit: int) -> list[ToolSummary]:
    """Returns the tools that match the text, the best first."""
    query = Query.of(text)
    if not query.terms or limit <= 0:
        return []

    async def having(words: Sequence[str]) -> list[Posting]:
        return await it.rows(_EXACT, (words,)) if words else []

    found = Matches()
    found.add(await having(query.words()))
    for term in query.unknown(found):
        values = (term, term + "\U0010ffff", BEGINNINGS)
        if found.may_begin(term, await it.rows(_BEGINNING, values)):
            continue
        found.may_be_meant(term, await having(slips(term)))
        found.add(await having(found.missing_synonyms(term)))
    [[total]] = await it.rows("SELECT count(*) FROM {schema}.tools")
    numbers = query.ranked(found, total, limit)
    rows = {row[0]: row[1:] for row in await it.rows(_SUMMARIES, (list(numbers),))}
    return first(
        [summary_from_row(rows[number], said) for number, said in numbers.items() if number in rows],
        query,
        limit,
    )


async def index(it: Statements, source: str, tools: Iterable[tuple[str, dict[str, int]]]) -> None:
    """Adds tools, which are already stored, to the search index."""
    ids = dict(await it.rows(_IDS, (source,)))
    rows = list(posting_rows((ids[name], weighed) for name, weighed in tools))
    if rows:
        columns = (list(column) for column in zip(*rows, strict=True))
        await it.change(_INSERT, (source, *columns))


_EXACT = "SELECT word, tools, weights FROM {schema}.search_words WHERE word = ANY(%s)"
_BEGINNING = """
    SELECT word, tools, weights FROM {schema}.search_words
    WHERE word > %s AND word < %s ORDER BY word, source LIMIT %s
"""
_SUMMARIES = """
    SELECT id, name, source, kind, description, tags, held IS NOT NULL FROM {schema}.tools WHERE id = ANY(%s)
"""
_IDS = "SELECT name, id FROM {schema}.tools WHERE source = %s"
_INSERT = """
    INSERT INTO {schema}.search_words (source, word, tools, weights)
    SELECT %s::text, given.* FROM unnest(%s::text[], %s::bytea[], %s::bytea[]) AS given
"""
