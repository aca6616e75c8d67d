"""The nearest of many vectors by an index, where PostgreSQL has the extension `vector`.

Up to `exact` vectors every process compares all of them, which is exact and takes milliseconds. Beyond, those
of the extension are kept beside ours, in a table that is made when it is needed.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import NamedTuple

from spindle.ports.vector_store import Nearest
from spindle.stores.postgres.connection import Statements
from spindle.stores.postgres.queries import PostgresQueries
from spindle.stores.sql_vectors import SqlVectors

MOST_DIMENSIONS = 4000
"""Numbers of a vector that the extension can index."""
MOST_CANDIDATES = 1000
ENOUGH = 1000
"""Vectors that tell how far apart all are."""


class _Index(NamedTuple):
    """An index that holds all vectors of a model."""

    extension: str
    """The schema of the extension, as it is written in SQL."""
    dimensions: int


class PostgresVectors(PostgresQueries, SqlVectors):
    """The part of the store that `VectorStore` describes, with an index."""

    _each = "SELECT jsonb_array_elements_text(CAST(:texts AS jsonb))"
    exact = 100_000
    """Vectors up to which no index is made."""
    _indexed: tuple[str, int, _Index | None] | None = None
    """Of this model, at this version of the vectors."""

    async def index_vectors(self, model: str) -> None:
        index = await self._possible(model)
        if index is None:
            return
        key = _key(model)
        where = {"extension": index.extension, "dimensions": str(index.dimensions), "key": key}
        for statement in (_TABLE, _INDEX):
            await self._change(_filled(statement, where))
        while rows := await self._rows(_MISSING, {"model": model, "key": key, "bytes": 2 * index.dimensions}):
            values = [
                {"key": key, "name": name, "version": version, "place": _written(vector)}
                for name, version, vector in rows
            ]
            statement = _filled(_PLACE, where)

            async def work(
                it: Statements, statement: str = statement, values: Sequence[object] = values
            ) -> None:
                await it.change_each(statement, values)

            await self._db.transaction(work)
        await self._change(_GONE)

    async def nearest(self, model: str, vector: Sequence[float], count: int) -> Nearest | None:
        version = await self.vector_version()
        if self._indexed is None or self._indexed[:2] != (model, version):
            self._indexed = (model, version, await self._whole(model))
        index = self._indexed[2]
        if index is None or index.dimensions != len(vector) or count > MOST_CANDIDATES:
            return None
        where = {"extension": index.extension, "dimensions": str(index.dimensions), "key": _key(model)}
        query, spreading = _filled(_NEAREST, where), _filled(_SPREAD, where)
        near = "[" + ",".join(f"{number:.6g}" for number in vector) + "]"

        async def work(it: Statements) -> Nearest:
            await it.change(f"SET LOCAL hnsw.ef_search = {min(max(2 * count, 100), MOST_CANDIDATES)}")
            rows = await it.rows(query, {"near": near, "count": count})
            [[spread]] = await it.rows(spreading, {"near": near, "count": ENOUGH})
            return Nearest([(float(score), name) for name, score in rows], float(spread or 0.0))

        return await self._db.transaction(work)

    async def _possible(self, model: str) -> _Index | None:
        """The index that these vectors should have."""
        sizes = await self._rows(_SIZES, {"model": model})
        if not sizes or sizes[0][1] <= self.exact or not 0 < sizes[0][0] <= MOST_DIMENSIONS:
            return None
        found = await self._rows(_EXTENSION)
        return _Index(found[0][0], sizes[0][0]) if found else None

    async def _whole(self, model: str) -> _Index | None:
        index = await self._possible(model)
        if index is None or not (await self._rows(_HAS_TABLE))[0][0]:
            return None
        values = {"model": model, "key": _key(model), "bytes": 2 * index.dimensions}
        return None if await self._rows(_MISSING, values) else index


def _key(model: str) -> str:
    """A name of a model that may stand in a statement."""
    return hashlib.md5(model.encode(), usedforsecurity=False).hexdigest()


def _filled(statement: str, where: dict[str, str]) -> str:
    for name, value in where.items():
        statement = statement.replace(f"<{name}>", value)
    return statement


def _written(vector: bytes) -> str:
    numbers = struct.unpack(f"<{len(vector) // 2}e", vector)
    return "[" + ",".join(f"{number:.6g}" for number in numbers) + "]"


_SIZES = """
    SELECT octet_length(vector) / 2, count(*) FROM {schema}.tool_vectors WHERE model = :model
    GROUP BY 1 ORDER BY 2 DESC LIMIT 1
"""
_EXTENSION = """
    SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
    WHERE extname = 'vector' AND to_regtype(quote_ident(nspname) || '.halfvec') IS NOT NULL
"""
_HAS_TABLE = "SELECT to_regclass('{schema}.vector_places') IS NOT NULL"
_TABLE = """
    CREATE TABLE IF NOT EXISTS {schema}.vector_places (
        key TEXT NOT NULL, name TEXT NOT NULL, version BIGINT NOT NULL, place <extension>.halfvec NOT NULL,
        PRIMARY KEY (key, name)
    )
"""
_INDEX = """
    CREATE INDEX IF NOT EXISTS vector_places_<dimensions>_<key> ON {schema}.vector_places
    USING hnsw (CAST(place AS <extension>.halfvec(<dimensions>)) <extension>.halfvec_ip_ops)
    WHERE key = '<key>'
"""
_MISSING = """
    SELECT made.name, made.version, made.vector FROM {schema}.tool_vectors AS made
    LEFT JOIN {schema}.vector_places AS placed ON placed.key = :key AND placed.name = made.name
    WHERE made.model = :model AND octet_length(made.vector) = :bytes
      AND placed.version IS DISTINCT FROM made.version
    LIMIT 100
"""
_PLACE = """
    INSERT INTO {schema}.vector_places (key, name, version, place)
    VALUES (:key, :name, :version, CAST(:place AS <extension>.halfvec))
    ON CONFLICT (key, name) DO UPDATE SET version = excluded.version, place = excluded.place
"""
_GONE = """
    DELETE FROM {schema}.vector_places AS placed WHERE NOT EXISTS (
        SELECT 1 FROM {schema}.tool_vectors AS made
        WHERE md5(made.model) = placed.key AND made.name = placed.name)
"""
_NEAREST = """
    SELECT name, -(CAST(place AS <extension>.halfvec(<dimensions>))
                   OPERATOR(<extension>.<#>) CAST(:near AS <extension>.halfvec(<dimensions>)))
    FROM {schema}.vector_places WHERE key = '<key>'
    ORDER BY CAST(place AS <extension>.halfvec(<dimensions>))
             OPERATOR(<extension>.<#>) CAST(:near AS <extension>.halfvec(<dimensions>))
    LIMIT :count
"""
_SPREAD = """
    SELECT stddev_pop(CAST(place AS <extension>.halfvec(<dimensions>))
                      OPERATOR(<extension>.<#>) CAST(:near AS <extension>.halfvec(<dimensions>)))
    FROM (SELECT place FROM {schema}.vector_places WHERE key = '<key>' LIMIT :count) AS a_few
"""
