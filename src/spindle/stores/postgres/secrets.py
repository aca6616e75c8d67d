"""Secrets, stored as others have encrypted them, and locks between processes, in PostgreSQL."""

from __future__ import annotations

from spindle.domain.identity import Secret, SecretKind
from spindle.stores.postgres.connection import Connection, Database
from spindle.stores.postgres.text import storable_row, storable_text
from spindle.stores.run_rows import secret_from_row, secret_row


class PostgresSecrets:
    """The parts of the store that `SecretStore` and `LeaseStore` describe."""

    _db: Database

    async def secret(self, kind: SecretKind, key: str) -> Secret | None:
        rows = await self._db.rows(f"{_SELECT} WHERE kind = %s AND key = %s", (kind, storable_text(key)))
        return secret_from_row(rows[0]) if rows else None

    async def secrets(self, kind: SecretKind, *, source: str | None = None) -> list[Secret]:
        values = {"kind": kind, "source": source and storable_text(source)}
        return [secret_from_row(row) for row in await self._db.rows(_SELECT_ALL, values)]

    async def save_secret(self, secret: Secret) -> None:
        await self._db.change(_UPSERT, storable_row(secret_row(secret)))

    async def swap_secret(self, old: Secret, new: Secret) -> bool:
        async def work(connection: Connection) -> bool:
            values = (old.kind, storable_text(old.key), old.sealed, old.used)
            found = await connection.execute(self._db.sql(_DELETE_SAME), values)
            if found.rowcount:
                await connection.execute(self._db.sql(_INSERT), storable_row(secret_row(new)))
            return found.rowcount == 1

        # Not repeated: after a lost answer it would take its own change for another's.
        # The caller gets an error, and knows that the swap may have happened.
        return await self._db.transaction(work, again=False)

    async def delete_secret(self, kind: SecretKind, key: str) -> bool:
        query = "DELETE FROM {schema}.secrets WHERE kind = %s AND key = %s"
        # Not repeated either: the caller that deletes a secret is the only one to use it.
        return await self._db.change(query, (kind, storable_text(key)), again=False) == 1

    async def forget_secrets(self, now: float) -> int:
        return await self._db.change("DELETE FROM {schema}.secrets WHERE expires_at <= %s", (now,))

    async def acquire(self, name: str, owner: str, until: float, now: float) -> bool:
        values = {"name": storable_text(name), "owner": owner, "until": until, "now": now}
        return await self._db.change(_ACQUIRE, values) == 1

    async def release(self, name: str, owner: str) -> None:
        query = "DELETE FROM {schema}.leases WHERE name = %s AND owner = %s"
        await self._db.change(query, (storable_text(name), owner))


_COLUMNS = "kind, key, sealed, source, principal, expires_at, used, updated_at"
_SELECT = f"SELECT {_COLUMNS} FROM {{schema}}.secrets"  # noqa: S608 - only constants
_SELECT_ALL = f"""
    {_SELECT} WHERE kind = %(kind)s AND (%(source)s::text IS NULL OR source = %(source)s)
    ORDER BY source, principal, key
"""
_INSERT = f"INSERT INTO {{schema}}.secrets ({_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"  # noqa: S608
_UPSERT = f"""
    {_INSERT}
    ON CONFLICT (kind, key) DO UPDATE SET sealed = excluded.sealed, source = excluded.source,
        principal = excluded.principal, expires_at = excluded.expires_at, used = excluded.used,
        updated_at = excluded.updated_at
"""
_DELETE_SAME = "DELETE FROM {schema}.secrets WHERE kind = %s AND key = %s AND sealed = %s AND used = %s"
_ACQUIRE = """
    INSERT INTO {schema}.leases AS held (name, owner, until) VALUES (%(name)s, %(owner)s, %(until)s)
    ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until
    WHERE held.owner = %(owner)s OR held.until <= %(now)s
"""
