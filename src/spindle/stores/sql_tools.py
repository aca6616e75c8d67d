"""The names of tools and the state of their sources, as every store of ours reads them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from spindle.domain.finding import ToolFinding
from spindle.domain.json_schema import from_json, is_array, to_json
from spindle.domain.tool import LeftOut, Loosened
from spindle.ports.store import Pins, SourceState
from spindle.stores.sql import SqlQueries


class SqlTools(SqlQueries):
    """The part of `ToolStore` that runs one statement, the same in every database."""

    async def names_ending_in(self, local_name: str) -> list[str]:
        query = """
            SELECT name FROM {schema}.tools WHERE local_name = :name AND definition IS NOT NULL ORDER BY name
        """
        return [row[0] for row in await self._rows(query, {"name": local_name})]

    async def names(self) -> list[str]:
        query = "SELECT name FROM {schema}.tools WHERE definition IS NOT NULL ORDER BY name"
        return [row[0] for row in await self._rows(query)]

    async def names_by_source(self) -> dict[str, list[str]]:
        # Sorted here: to read a table in the order of names takes twice as long.
        found: dict[str, list[str]] = {}
        for name, source in await self._rows(_NAMES_AND_SOURCES):
            found.setdefault(source, []).append(name)
        return {source: sorted(names) for source, names in found.items()}

    async def sources(self, only: str | None = None) -> dict[str, SourceState]:
        query = """
            SELECT sources.name, sources.kind, signature, synced_at,
                   (SELECT count(definition) FROM {schema}.tools WHERE source = sources.name),
                   (SELECT count(held) FROM {schema}.tools WHERE source = sources.name), error, left_out
            FROM {schema}.sources
            WHERE CAST(:only AS TEXT) IS NULL OR sources.name = :only ORDER BY sources.name
        """
        rows = await self._rows(query, {"only": only})
        return {row[0]: replace(SourceState(*row[:-1]), **findings_from(row[-1])) for row in rows}

    async def pins(self, source: str) -> Pins | None:
        return pins_from(await self._rows(SELECT_PINS, {"source": source}))

    async def note_synced(self, state: SourceState) -> None:
        await self._change(UPSERT_SOURCE, source_row(state))

    async def note_failure(self, source: str, kind: str, error: str) -> None:
        statement = """
            INSERT INTO {schema}.sources (name, kind, error) VALUES (:name, :kind, :error)
            ON CONFLICT (name) DO UPDATE SET error = excluded.error
        """
        await self._change(statement, {"name": source, "kind": kind, "error": error})


_NAMES_AND_SOURCES = "SELECT name, source FROM {schema}.tools WHERE definition IS NOT NULL"


def pins_from(rows: Iterable[Sequence[Any]]) -> Pins | None:
    """Returns pins as they were stored; None where the source is not pinned."""
    found = {row[0]: row[1] for row in rows}
    return {name: mark for name, mark in found.items() if name} if found else None


def pin_rows(source: str, pins: Pins | None) -> list[dict[str, str]]:
    """Returns the rows that stand for pins: one without a name says that the source is pinned."""
    marks = {} if pins is None else {"": "", **pins}
    return [{"source": source, "name": name, "fingerprint": mark} for name, mark in marks.items()]


SELECT_PINS = "SELECT name, fingerprint FROM {schema}.pins WHERE source = :source"
DELETE_PINS = "DELETE FROM {schema}.pins WHERE source = :source"
INSERT_PIN = "INSERT INTO {schema}.pins (source, name, fingerprint) VALUES (:source, :name, :fingerprint)"
BUMP_VERSION = "UPDATE {schema}.meta SET value = value + 1 WHERE key = 'catalog_version'"
TOOL = ("name", "source", "kind", "place", "fingerprint", "definition", "held", "shared", "held_shared")
UPSERT_SOURCE = """
    INSERT INTO {schema}.sources (name, kind, signature, synced_at, error, left_out)
    VALUES (:name, :kind, :signature, :synced_at, NULL, :left_out)
    ON CONFLICT (name) DO UPDATE SET kind = excluded.kind, signature = excluded.signature,
        synced_at = excluded.synced_at, error = NULL, left_out = excluded.left_out
"""


def source_row(state: SourceState) -> dict[str, Any]:
    """The columns of a source that was synced."""
    findings = {
        "left_out": [item.to_dict() for item in state.left_out],
        "loosened": [item.to_dict() for item in state.loosened],
        **({"findings": [item.to_dict() for item in state.findings]} if state.findings else {}),
        **({"instructions": state.instructions} if state.instructions else {}),
        **({"server": state.server} if state.server else {}),
    }
    return {
        "name": state.name, "kind": state.kind, "signature": state.signature,
        "synced_at": state.synced_at, "left_out": to_json(findings).decode(),
    }  # fmt: skip


def findings_from(text: str | None) -> dict[str, Any]:
    """The tools that were left out and loosened, the instructions and the server, from their column."""
    found: Any = from_json(text.encode()) if text else {}
    if is_array(found):  # written before there were any that are loosened
        found = {"left_out": found}
    return {
        "left_out": tuple(LeftOut(**item) for item in found.get("left_out", ())),
        "loosened": tuple(Loosened(**item) for item in found.get("loosened", ())),
        "findings": tuple(ToolFinding(**item) for item in found.get("findings", ())),
        "instructions": found.get("instructions"),
        "server": found.get("server"),
    }
