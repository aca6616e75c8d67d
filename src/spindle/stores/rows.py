"""Conversions between rows and the objects they hold."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from spindle.domain.call import CallRecord, Result
from spindle.domain.definitions import Definitions, references_in
from spindle.domain.json_schema import canonical, from_json, to_json
from spindle.domain.tool import Effect, Hints, Tool, ToolSpec, ToolSummary
from spindle.errors import NameConflictError, StoreError
from spindle.ports.store import Seal, SourceState, StoredTool

MAX_CACHED_RESULT = 1024 * 1024
CALL = (
    "key", "tool", "source", "principal", "arguments", "outcome", "started_at", "duration", "attempts",
    "error", "parent", "result", "run", "trace",
)  # fmt: skip


def storable(text: str) -> str:
    """The text with escapes for what is not valid Unicode (bytes of a file name, half a surrogate pair),
    which no database accepts."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def name_conflict(name: str, place: str, other: str) -> NameConflictError:
    """The error for two tools of one name, with their places."""
    return NameConflictError(
        f"two tools are called {name!r}: one in {place}, one in {other}",
        hint="rename one of them, or leave one out with `exclude`",
    )


def row_from_stored(stored: StoredTool, state: SourceState) -> dict[str, Any]:
    """The columns of a stored tool."""
    shown = stored.current or stored.held
    assert shown is not None, "a stored tool has a current definition, a held one, or both"
    return {
        "name": storable(stored.name),
        "local_name": storable(shown.local_name),
        "source": state.name,
        "kind": state.kind,
        "description": storable(shown.description),
        "tags": storable("\n".join(shown.spec.tags)),
        "place": storable(shown.spec.place),
        "fingerprint": stored.current.fingerprint if stored.current else None,
        "definition": to_json(stored.current.spec.to_dict()) if stored.current else None,
        "held": to_json(stored.held.spec.to_dict()) if stored.held else None,
        "shared": _key(stored.current),
        "held_shared": _key(stored.held),
    }


def _key(tool: Tool | None) -> str | None:
    return tool.spec.definitions.key if tool is not None and tool.spec.definitions is not None else None


def definition_rows(source: str, tools: Sequence[StoredTool]) -> list[tuple[str, str, str, bytes]]:
    """The rows of the definition sets that these tools share. There is more than one set while some tools
    of a pinned source still have their old definition."""
    found: dict[str, Definitions] = {}
    seen: set[int] = set()
    for stored in tools:
        for tool in (stored.current, stored.held):
            definitions = tool.spec.definitions if tool is not None else None
            if definitions is not None and id(definitions) not in seen:
                seen.add(id(definitions))
                found[definitions.key] = definitions
    return [
        (source, key, name, canonical(schema))
        for key, definitions in found.items()
        for name, schema in definitions.schemas.items()
    ]


class SharedDefinitions(Protocol):
    """Reads the definitions of a source that its tools refer to by the key of their set."""

    def whole(self, source: str, key: str | None) -> Definitions | None:
        """The whole set."""

    def reached(self, source: str, key: str | None, definition: bytes) -> Definitions | None:
        """The part of the set that one tool's definition uses."""


class SharedRows:
    """Reads shared definitions from SQLite, each set once."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._sets: dict[tuple[str, str], Definitions] = {}

    def whole(self, source: str, key: str | None) -> Definitions | None:
        if key is None:
            return None
        found = self._sets.get((source, key))
        if found is None:
            query = "SELECT name, schema FROM definitions WHERE source = ? AND shared = ?"
            schemas = {name: from_json(blob) for name, blob in self._db.execute(query, (source, key))}
            found = self._sets[source, key] = Definitions(schemas)
        return found

    def reached(self, source: str, key: str | None, definition: bytes) -> Definitions | None:
        """Reads only the definitions that one tool uses, which are few of a large set."""
        if key is None:
            return None
        query = "SELECT schema FROM definitions WHERE source = ? AND shared = ? AND name = ?"
        schemas: dict[str, Any] = {}
        waiting = references_in(definition)
        while waiting:
            name = waiting.pop()
            row = self._db.execute(query, (source, key, name)).fetchone() if name not in schemas else None
            if row is not None:
                schemas[name] = from_json(row[0])
                waiting += references_in(row[0])
        return Definitions(schemas)


def tool_from_row(row: tuple[Any, ...], shared: SharedDefinitions) -> Tool:
    """The tool in a row."""
    name, source, kind, place, fingerprint, definition, _, key, _ = row
    definitions = shared.reached(source, key, definition)
    spec = ToolSpec.from_definition(from_json(definition), place, definitions)
    return Tool(name, source, kind, spec, fingerprint)


def stored_from_row(row: tuple[Any, ...], shared: SharedDefinitions) -> StoredTool:
    """The tool in a row with its current and its held definition."""
    name, source, kind, place, fingerprint, definition, held, key, held_key = row

    def tool(blob: bytes, mark: str | None, key: str | None) -> Tool:
        spec = ToolSpec.from_definition(from_json(blob), place, shared.whole(source, key))
        return Tool(name, source, kind, spec, mark or spec.fingerprint)

    return StoredTool(
        name,
        current=tool(definition, fingerprint, key) if definition is not None else None,
        held=tool(held, None, held_key) if held is not None else None,
    )


def summary_from_row(row: tuple[str, str, str, str, str, int], said: float = 0.0) -> ToolSummary:
    """The tool in a row as it is shown in lists."""
    name, source, kind, description, tags, held = row
    return ToolSummary(name, source, kind, description, tuple(tags.splitlines()), bool(held), said)


def summaries_from_rows(rows: Iterable[Sequence[Any]], effect: Effect | None) -> list[ToolSummary]:
    """The tools in rows with their definition last, which is only read to choose those with an effect."""
    return [
        summary_from_row((name, source, kind, description, tags, held))
        for name, source, kind, description, tags, held, definition in rows
        if effect is None or _hints(definition).promise(effect)
    ]


def _hints(definition: bytes) -> Hints:
    return Hints(**from_json(definition).get("hints", {}))


def row_from_record(record: CallRecord, seal: Seal) -> tuple[Any, ...]:
    """The columns of a call record, its details sealed for it. Without a key they are left out: never in
    clear, and never at the cost of the record."""
    arguments = to_json(record.arguments, default=str)
    error = to_json(record.error, default=str) if record.error else None
    result = to_json(record.result, default=str) if record.result else None
    try:
        arguments = seal.seal(arguments, f"call:{record.key}:arguments")
        error = error and seal.seal(error, f"call:{record.key}:error")
        result = result and seal.seal(result, f"call:{record.key}:result")
    except StoreError as problem:
        told = {"category": "store", "message": f"the details were not kept: {problem.message}"}
        arguments, error, result = b"{}", to_json(told), None
    tool, principal = record.tool, record.principal
    if not (tool.isascii() and principal.isascii()):
        tool, principal = storable(tool), storable(principal)
    return (
        record.key, tool, record.source, principal, arguments,
        record.outcome, record.started_at, record.duration, record.attempts, error, record.parent, result,
        record.run, record.trace,
    )  # fmt: skip


def record_from_row(row: tuple[Any, ...], seal: Seal) -> CallRecord:
    """The call record in a row. Details that cannot be opened are replaced by a word on why."""
    (key, tool, source, principal, arguments, outcome, started_at, duration, attempts, error, parent,
     result, run, trace) = row  # fmt: skip
    try:
        arguments = seal.open(arguments, f"call:{key}:arguments")
        error = error and seal.open(error, f"call:{key}:error")
        result = result and seal.open(result, f"call:{key}:result")
    except StoreError as unreadable:
        arguments, result = b"{}", None
        error = to_json({"category": "store", "message": unreadable.message})
    return CallRecord(
        key, tool, source, principal, from_json(arguments), outcome, started_at, duration, attempts,
        from_json(error) if error else None, parent, from_json(result) if result else None,
        run, trace,
    )  # fmt: skip


def without_details(record: CallRecord) -> CallRecord:
    """The record without what the call was given and what came of it."""
    return replace(record, arguments={}, error=None, result=None)


def cache_blob(key: str, result: Result, seal: Seal) -> bytes | None:
    """The bytes of a result for the cache, sealed for its key, or None if it is too large."""
    blob = to_json({**result.to_dict(), "has_structured": result.has_structured})
    if len(blob) > MAX_CACHED_RESULT:
        return None
    return seal.seal(blob, f"cache:{key}")
