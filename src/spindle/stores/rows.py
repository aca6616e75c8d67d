"""Between rows and the nouns they hold."""

from __future__ import annotations

from typing import Any

from spindle.domain.call import CallRecord
from spindle.domain.json_schema import from_json, to_json
from spindle.domain.tool import Tool, ToolSpec, ToolSummary
from spindle.ports.store import SourceState, StoredTool


def storable(text: str) -> str:
    """The text, with escapes for what is not Unicode (bytes of a file name, half a surrogate pair)
    and which no database takes."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def row_from_stored(stored: StoredTool, state: SourceState) -> dict[str, Any]:
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
        "definition": to_json(stored.current.spec.definition()) if stored.current else None,
        "held": to_json(stored.held.spec.definition()) if stored.held else None,
    }


def stored_from_row(row: tuple[Any, ...]) -> StoredTool:
    name, source, kind, place, fingerprint, definition, held = row

    def tool(blob: bytes, mark: str | None) -> Tool:
        spec = ToolSpec.from_definition(from_json(blob), place)
        return Tool(name, source, kind, spec, mark or spec.fingerprint)

    return StoredTool(
        name,
        current=tool(definition, fingerprint) if definition is not None else None,
        held=tool(held, None) if held is not None else None,
    )


def summary_from_row(row: tuple[str, str, str, str, str, int]) -> ToolSummary:
    name, source, kind, description, tags, held = row
    return ToolSummary(name, source, kind, description, tuple(tags.splitlines()), bool(held))


def row_from_record(record: CallRecord) -> tuple[Any, ...]:
    return (
        record.key, storable(record.tool), record.source, storable(record.principal),
        to_json(record.arguments, default=str), record.outcome, record.started_at, record.duration,
        record.attempts, to_json(record.error, default=str) if record.error else None, record.parent,
    )  # fmt: skip


def record_from_row(row: tuple[Any, ...]) -> CallRecord:
    key, tool, source, principal, arguments, outcome, started_at, duration, attempts, error, parent = row
    return CallRecord(
        key, tool, source, principal, from_json(arguments), outcome, started_at, duration, attempts,
        from_json(error) if error else None, parent,
    )  # fmt: skip
