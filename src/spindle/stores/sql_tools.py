"""The names of tools and the state of their sources, as every store of ours reads them."""

from __future__ import annotations

from spindle.ports.store import SourceState
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

    async def sources(self) -> dict[str, SourceState]:
        query = """
            SELECT sources.name, sources.kind, signature, synced_at,
                   (SELECT count(definition) FROM {schema}.tools WHERE source = sources.name),
                   (SELECT count(held) FROM {schema}.tools WHERE source = sources.name), error
            FROM {schema}.sources ORDER BY sources.name
        """
        return {row[0]: SourceState(*row) for row in await self._rows(query)}

    async def note_failure(self, source: str, kind: str, error: str) -> None:
        statement = """
            INSERT INTO {schema}.sources (name, kind, error) VALUES (:name, :kind, :error)
            ON CONFLICT (name) DO UPDATE SET error = excluded.error
        """
        await self._change(statement, {"name": source, "kind": kind, "error": error})


BUMP_VERSION = "UPDATE {schema}.meta SET value = value + 1 WHERE key = 'catalog_version'"
TOOL = ("name", "source", "kind", "place", "fingerprint", "definition", "held", "shared", "held_shared")
UPSERT_SOURCE = """
    INSERT INTO {schema}.sources (name, kind, signature, synced_at, error)
    VALUES (:name, :kind, :signature, :synced_at, NULL)
    ON CONFLICT (name) DO UPDATE SET kind = excluded.kind, signature = excluded.signature,
        synced_at = excluded.synced_at, error = NULL
"""
