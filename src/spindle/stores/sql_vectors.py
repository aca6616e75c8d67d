"""The vectors of tools, as every store of ours keeps them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from spindle.domain.tool import ToolSummary
from spindle.ports.vector_store import Nearest, ToolVector
from spindle.stores.rows import summary_from_row
from spindle.stores.sql import Change, SqlQueries


class SqlVectors(SqlQueries):
    """The part of the store that `VectorStore` describes."""

    _each: str
    """Reads the texts of a JSON array in `:texts` as rows."""

    async def vector_version(self) -> int:
        [[version]] = await self._rows(_VERSION)
        return version

    async def vectors(self, model: str, after: int) -> list[tuple[str, bytes]]:
        rows = await self._rows(_AFTER, {"model": model, "after": after})
        return [(name, bytes(vector)) for name, vector in rows]

    async def without_vectors(self, model: str) -> list[tuple[str, str, str]]:
        return [(row[0], row[1], row[2]) for row in await self._rows(_WITHOUT, {"model": model})]

    async def vectors_of_texts(self, model: str, digests: Sequence[str]) -> dict[str, bytes]:
        rows = await self._rows(
            _OF_TEXTS + f"({self._each})", {"model": model, "texts": json.dumps(list(digests))}
        )
        return {digest: bytes(vector) for digest, vector in rows}

    async def save_vectors(self, model: str, vectors: Sequence[ToolVector]) -> None:
        # The version first: it is also the lock by which versions become visible in their order.
        changes: list[Change] = [(_BUMP, {})]
        for item in vectors:
            values = {"model": model, "name": item.name, "fingerprint": item.fingerprint}
            changes.append((_SAVE, values | {"digest": item.digest, "vector": item.vector}))
        await self._change_all(changes)

    async def use_model(self, model: str, day: int) -> bool:
        if await self._rows(_IS_USED, {"model": model, "day": day}):
            return False
        return await self._change(_USED, {"model": model, "day": day}) > 0

    async def forget_vectors(self, before: int) -> int:
        await self._change(_FORGET_MODELS, {"day": before})
        return await self._change(_FORGET)

    async def index_vectors(self, model: str) -> None:
        return None

    async def nearest(self, model: str, vector: Sequence[float], count: int) -> Nearest | None:
        return None

    async def summaries(self, names: Sequence[str]) -> list[ToolSummary]:
        rows = await self._rows(_SUMMARIES + f"({self._each})", {"texts": json.dumps(list(names))})
        return [summary_from_row(row) for row in rows]


_VERSION = "SELECT value FROM {schema}.meta WHERE key = 'vector_version'"
_BUMP = "UPDATE {schema}.meta SET value = value + 1 WHERE key = 'vector_version'"
_AFTER = """
    SELECT name, vector FROM {schema}.tool_vectors WHERE model = :model AND version > :after ORDER BY version
"""
_WITHOUT = """
    SELECT tools.source, tools.name, tools.fingerprint FROM {schema}.tools
    LEFT JOIN {schema}.tool_vectors AS made
      ON made.model = :model AND made.name = tools.name AND made.fingerprint = tools.fingerprint
    WHERE tools.definition IS NOT NULL AND made.name IS NULL
    ORDER BY tools.source, tools.name
"""
_OF_TEXTS = "SELECT digest, vector FROM {schema}.tool_vectors WHERE model = :model AND digest IN "
_SAVE = """
    INSERT INTO {schema}.tool_vectors (model, name, fingerprint, digest, vector, version)
    VALUES (:model, :name, :fingerprint, :digest, :vector,
            (SELECT value FROM {schema}.meta WHERE key = 'vector_version'))
    ON CONFLICT (model, name) DO UPDATE SET fingerprint = excluded.fingerprint, digest = excluded.digest,
        vector = excluded.vector, version = excluded.version
"""
_IS_USED = "SELECT day FROM {schema}.vector_models WHERE model = :model AND day >= :day"
_USED = """
    INSERT INTO {schema}.vector_models (model, day) VALUES (:model, :day)
    ON CONFLICT (model) DO UPDATE SET day = excluded.day WHERE vector_models.day < excluded.day
"""
_FORGET_MODELS = "DELETE FROM {schema}.vector_models WHERE day < :day"
_FORGET = """
    DELETE FROM {schema}.tool_vectors
    WHERE name NOT IN (SELECT name FROM {schema}.tools)
       OR model NOT IN (SELECT model FROM {schema}.vector_models)
"""
_SUMMARIES = """
    SELECT name, source, kind, description, tags, held IS NOT NULL FROM {schema}.tools
    WHERE definition IS NOT NULL AND name IN
"""
