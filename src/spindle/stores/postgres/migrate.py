"""Brings a PostgreSQL schema to the version of this Spindle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from spindle.errors import StoreError
from spindle.stores import migrate as sqlite_migrate
from spindle.stores.postgres.tools import index_all

if TYPE_CHECKING:
    from spindle.stores.postgres.connection import Connection, Database, Statements

OLDEST_SERVER = 13


def migrations() -> list[Path]:
    """The numbered SQL files, in order."""
    return sorted((Path(sqlite_migrate.__file__).parent / "migrations" / "postgres").glob("*.sql"))


_INDEXED_ANEW = {3}
"""Migrations after which the words of all tools are taken down once more."""


async def bring_up_to_date(database: Database) -> None:
    """Creates the schema if needed and applies the missing migrations. Several processes may do so at
    once."""
    known = migrations()

    async def is_current(it: Statements) -> bool:
        _refuse_unfit_server(it.connection, database)
        try:
            current = await _version(it, database)
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            return False
        _refuse_newer(current, len(known), database)
        return current == len(known)

    async def apply(it: Statements) -> None:
        schema = database.address.schema
        # Held until the transaction ends; the next process finds everything done.
        await it.change(
            "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"spindle.migrate.{schema}",)
        )
        # CREATE SCHEMA IF NOT EXISTS needs the right to create one even if it exists.
        if not await it.rows("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)):
            await it.change("CREATE SCHEMA {schema}")
        await it.change("SET LOCAL search_path TO {schema}")
        await it.change(_META)
        current = await _version(it, database)
        _refuse_newer(current, len(known), database)
        for number, path in enumerate(known[current:], start=current + 1):
            await it.connection.execute(path.read_bytes())
            if number in _INDEXED_ANEW:
                await index_all(it)
        await it.change("UPDATE {schema}.meta SET value = %s WHERE key = 'schema_version'", (len(known),))

    if not await database.run(is_current):
        await database.transaction(apply)


async def _version(it: Statements, database: Database) -> int:
    rows = await it.rows("SELECT value FROM {schema}.meta WHERE key = 'schema_version'")
    if not rows:
        raise StoreError(
            f"the schema {database.address.schema!r} holds something else than Spindle's state",
            hint="name another one with `?schema=` in `store`",
        )
    return rows[0][0]


async def newer(database: Database) -> StoreError | None:
    """Returns the error for a schema that a newer Spindle has brought up to date."""
    current = await database.run(lambda it: _version(it, database))
    return _written_by_newer(current, len(migrations()), database)


def _refuse_newer(current: int, known: int, database: Database) -> None:
    error = _written_by_newer(current, known, database)
    if error is not None:
        raise error


def _written_by_newer(current: int, known: int, database: Database) -> StoreError | None:
    if current <= known:
        return None
    return StoreError(
        f"the state was written by a newer Spindle (version {current}, this one knows {known};"
        f" {database.address.shown})",
        hint="upgrade Spindle, or name another `?schema=` in `store`",
    )


def _refuse_unfit_server(connection: Connection, database: Database) -> None:
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreError(
            f"the database keeps text as {encoding}, which cannot hold every text ({database.address.shown})",
            hint="create one with `createdb -E UTF8 -T template0 NAME`",
        )
    if connection.info.server_version < OLDEST_SERVER * 10_000:
        raise StoreError(
            f"the database server is older than PostgreSQL {OLDEST_SERVER} ({database.address.shown})",
            hint="upgrade it",
        )


_META = """
    CREATE TABLE IF NOT EXISTS {schema}.meta (key TEXT PRIMARY KEY, value BIGINT NOT NULL);
    INSERT INTO {schema}.meta VALUES ('schema_version', 0), ('catalog_version', 0) ON CONFLICT DO NOTHING;
"""
