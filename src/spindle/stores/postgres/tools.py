"""The catalog in PostgreSQL: tools, their shared definitions, and the state of their sources."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import psycopg

from spindle.domain.definitions import Definitions, references_in
from spindle.domain.json_schema import from_json
from spindle.domain.tool import Tool, ToolSummary
from spindle.ports.store import PinChange, SourceState, StoredTool, ToolFilter
from spindle.stores.postgres.connection import Statements
from spindle.stores.postgres.queries import PostgresQueries
from spindle.stores.postgres.search import index, search
from spindle.stores.postgres.text import storable_text, storable_values
from spindle.stores.rows import (
    definition_rows,
    name_conflict,
    row_from_stored,
    stored_from_row,
    summaries_from_rows,
    tool_from_row,
)
from spindle.stores.search_index import weighed_words
from spindle.stores.sql import select
from spindle.stores.sql_tools import (
    BUMP_VERSION,
    DELETE_PINS,
    INSERT_PIN,
    SELECT_PINS,
    TOOL,
    UPSERT_SOURCE,
    SqlTools,
    pin_rows,
    pins_from,
    source_row,
)


class PostgresTools(PostgresQueries, SqlTools):
    """The part of the store that `ToolStore` describes."""

    async def catalog_version(self) -> int:
        [[version]] = await self._db.rows(_VERSION)
        return version

    def version_at_once(self) -> int | None:
        return None

    async def tool(self, name: str) -> Tool | None:
        rows = await self._db.rows(_SELECT_TOOL, (name,))
        if rows and rows[0][_SHARED] is None:
            return tool_from_row(rows[0], _Read())

        async def work(it: Statements) -> Tool | None:
            # Read again together with its definitions: both must come from the same sync.
            found = await it.rows(_SELECT_TOOL, (name,))
            return tool_from_row(found[0], await _reached(it, found[0])) if found else None

        return await self._db.snapshot(work) if rows else None

    async def tools(self, where: ToolFilter) -> list[ToolSummary]:
        values = storable_values(dataclasses.asdict(where))
        if values["pattern"] is not None:
            values["pattern"] = regular_expression(values["pattern"])

        async def work(it: Statements) -> list[ToolSummary]:
            try:
                found = await it.rows(_LIST, values)
            except psycopg.errors.InvalidRegularExpression:
                return []  # such as [z-a], which nothing matches
            return summaries_from_rows(found, where.effect)

        return await self._db.run(work)

    async def search(self, query: str, limit: int) -> list[ToolSummary]:
        return await self._db.snapshot(lambda it: search(it, query, limit))

    async def stored_tools(self, source: str) -> list[StoredTool]:
        return await self._db.snapshot(lambda it: _stored(it, source))

    async def replace_tools(
        self, state: SourceState, tools: Sequence[StoredTool], pins: PinChange | None = None
    ) -> bool:
        rows = [row_from_stored(tool, state) for tool in tools]
        weighed = [(storable_text(tool.name), weighed_words(tool.current)) for tool in tools if tool.current]
        columns = storable_values({name: [row[name] for row in rows] for name in _TOOL_COLUMNS})
        definitions = definition_rows(state.name, tools)

        async def work(it: Statements) -> bool:
            # First, because it is also the lock that serializes the storing of sources:
            # two that claim the same name at the same time would each miss the other's.
            await it.change(BUMP_VERSION)
            if pins is not None and not await _repin(it, state.name, pins):
                return False
            await it.change(UPSERT_SOURCE, source_row(state))
            await _delete_tools(it, state.name)
            await _refuse_conflict(it, columns)
            if definitions:
                _, keys, names, schemas = (list(column) for column in zip(*definitions, strict=True))
                await it.change(_INSERT_DEFINITIONS, (state.name, keys, names, schemas))
            await it.change(_INSERT_TOOLS, {**columns, "its_source": state.name})
            await index(it, state.name, weighed)
            return True

        return await self._db.transaction(work)

    async def forget_source(self, source: str) -> None:
        async def work(it: Statements) -> None:
            await it.change(BUMP_VERSION)
            await _delete_tools(it, source)
            await it.change(DELETE_PINS, {"source": source})
            await it.change("DELETE FROM {schema}.sources WHERE name = %s", (source,))

        await self._db.transaction(work)


async def index_all(it: Statements) -> None:
    """Rebuilds the search index from the stored tools."""
    await it.change("DELETE FROM {schema}.search_words")
    for (source,) in await it.rows("SELECT name FROM {schema}.sources"):
        stored = await _stored(it, source)
        await index(it, source, [(tool.name, weighed_words(tool.current)) for tool in stored if tool.current])


async def _stored(it: Statements, source: str) -> list[StoredTool]:
    rows = await it.rows(_SELECT_STORED, (source,))
    shared = _Read()
    for key, name, schema in await it.rows(_SELECT_DEFINITIONS, (source,)):
        shared.add(key, name, schema)
    return [stored_from_row(row, shared) for row in rows]


async def _delete_tools(it: Statements, source: str) -> None:
    for table in ("search_words", "tools", "definitions"):
        await it.change(f"DELETE FROM {{schema}}.{table} WHERE source = %s", (source,))  # noqa: S608 - constants


async def _repin(it: Statements, source: str, pins: PinChange) -> bool:
    """Replaces the pins of a source, unless they have changed since they were read."""
    if pins_from(await it.rows(SELECT_PINS, {"source": source})) != pins.before:
        return False
    if pins.after != pins.before:
        await it.change(DELETE_PINS, {"source": source})
        await it.change_each(INSERT_PIN, pin_rows(source, pins.after))
    return True


async def _refuse_conflict(it: Statements, columns: dict[str, list[Any]]) -> None:
    places: dict[str, str] = {}
    for name, place in zip(columns["name"], columns["place"], strict=True):
        if name in places:
            raise name_conflict(name, places[name], place)
        places[name] = place
    query = "SELECT name, place FROM {schema}.tools WHERE name = ANY(%s) ORDER BY name LIMIT 1"
    for name, place in await it.rows(query, (columns["name"],)):
        raise name_conflict(name, place, places[name])


async def _reached(it: Statements, row: tuple[Any, ...]) -> _Read:
    """The definitions that one tool uses, which are few of a large set."""
    source, key, shared = row[_SOURCE], row[_SHARED], _Read()
    if key is None:
        return shared
    asked: set[str] = set()
    wanted = set(references_in(row[_DEFINITION]))
    while wanted:
        asked |= wanted
        found = await it.rows(_SELECT_NAMED, (source, key, list(wanted)))
        wanted = set[str]()
        for name, schema in found:
            shared.add(key, name, schema)
            wanted.update(references_in(schema))
        wanted -= asked
    return shared


class _Read:
    """Definitions of one source, read from the database."""

    def __init__(self) -> None:
        self._schemas: dict[str, dict[str, Any]] = {}
        self._sets: dict[str, Definitions] = {}

    def add(self, key: str, name: str, schema: bytes) -> None:
        self._schemas.setdefault(key, {})[name] = from_json(schema)

    def whole(self, source: str, key: str | None) -> Definitions | None:
        if key is None:
            return None
        if key not in self._sets:
            self._sets[key] = Definitions(self._schemas.get(key, {}))
        return self._sets[key]

    def reached(self, source: str, key: str | None, definition: bytes) -> Definitions | None:
        return self.whole(source, key)


_TOOL_COLUMNS = (
    "name", "local_name", "kind", "description", "tags", "place", "fingerprint", "definition", "held",
    "shared", "held_shared",
)  # fmt: skip

_VERSION = "SELECT value FROM {schema}.meta WHERE key = 'catalog_version'"
_SELECT = select("tools", TOOL)
_SOURCE, _DEFINITION, _SHARED = (TOOL.index(name) for name in ("source", "definition", "shared"))
_SELECT_TOOL = f"{_SELECT} WHERE name = %s AND definition IS NOT NULL"
_SELECT_STORED = f"{_SELECT} WHERE source = %s ORDER BY name"
_SELECT_DEFINITIONS = "SELECT shared, name, schema FROM {schema}.definitions WHERE source = %s"
_SELECT_NAMED = """
    SELECT name, schema FROM {schema}.definitions WHERE source = %s AND shared = %s AND name = ANY(%s)
"""
_LIST = """
    SELECT name, source, kind, description, tags, held IS NOT NULL,
           CASE WHEN %(effect)s::text IS NOT NULL THEN definition END
    FROM {schema}.tools WHERE definition IS NOT NULL
      AND (%(source)s::text IS NULL OR source = %(source)s)
      AND (%(kind)s::text IS NULL OR kind = %(kind)s)
      AND (%(tag)s::text IS NULL OR %(tag)s = ANY(string_to_array(tags, chr(10))))
      AND (%(pattern)s::text IS NULL OR name ~ %(pattern)s)
    ORDER BY name
"""
_INSERT_DEFINITIONS = """
    INSERT INTO {schema}.definitions (source, shared, name, schema)
    SELECT %s::text, given.* FROM unnest(%s::text[], %s::text[], %s::bytea[]) AS given
"""
_INSERT_TOOLS = """
    WITH given AS (
        SELECT * FROM unnest(
            %(name)s::text[], %(local_name)s::text[], %(kind)s::text[], %(description)s::text[],
            %(tags)s::text[], %(place)s::text[], %(fingerprint)s::text[], %(definition)s::bytea[],
            %(held)s::bytea[], %(shared)s::text[], %(held_shared)s::text[]
        ) AS one (name, local_name, kind, description, tags, place, fingerprint, definition,
                  held, shared, held_shared)
    )
    INSERT INTO {schema}.tools (name, local_name, source, kind, description, tags, place,
                                fingerprint, definition, held, shared, held_shared)
    SELECT name, local_name, %(its_source)s::text, kind, description, tags, place,
           fingerprint, definition, held, shared, held_shared
    FROM given
"""


def regular_expression(glob: str) -> str:
    """Translates SQLite's globs into PostgreSQL's regular expressions: `*` is any text, `?` one character,
    `[abc]`, `[a-z]` and `[^abc]` one of a set. A `[` that is never closed matches nothing."""
    made, at = "", 0
    while at < len(glob):
        character = glob[at]
        at += 1
        if character == "*":
            # Several in a row mean the same as one; a long row would be slow.
            made += "" if made.endswith(".*") else ".*"
        elif character == "?":
            made += "."
        elif character == "[":
            # A `]` in first place is one of the characters.
            found = re.match(r"(\^?)(\]?[^\]]*)\]", glob[at:], re.DOTALL)
            if found is None or not found[2]:
                return "^(?!)"
            made += f"[{found[1]}{_bracket(found[2])}]"
            at += found.end()
        else:
            made += _literal(character)
    return f"^(?:{made})$"


def _bracket(members: str) -> str:
    # Characters with a meaning inside brackets of a regular expression, but not of a glob.
    return "".join(f"\\{each}" if each in "\\[]^" else each for each in members)


def _literal(character: str) -> str:
    return character if character.isalnum() or ord(character) > 127 else f"\\{character}"
