"""Secrets, stored as others have encrypted them, and locks between processes, in SQLite."""

from __future__ import annotations

import sqlite3

from spindle.domain.identity import Secret, SecretKind
from spindle.stores.rows import storable
from spindle.stores.run_rows import secret_from_row, secret_row
from spindle.stores.worker import Worker


class SqliteSecrets:
    """The parts of the store that `SecretStore` and `LeaseStore` describe."""

    _reader: Worker
    _writer: Worker

    async def secret(self, kind: SecretKind, key: str) -> Secret | None:
        query = f"{_SELECT} WHERE kind = ? AND key = ?"
        row = await self._reader.run(lambda db: db.execute(query, (kind, storable(key))).fetchone())
        return secret_from_row(row) if row else None

    async def secrets(self, kind: SecretKind, *, source: str | None = None) -> list[Secret]:
        query = f"""
            {_SELECT} WHERE kind = :kind AND (:source IS NULL OR source = :source)
            ORDER BY source, principal, key
        """
        values = {"kind": kind, "source": source}
        return await self._reader.run(lambda db: [secret_from_row(row) for row in db.execute(query, values)])

    async def save_secret(self, secret: Secret) -> None:
        query = "INSERT OR REPLACE INTO secrets VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        await self._writer.run(lambda db: db.execute(query, secret_row(secret)) and None)

    async def swap_secret(self, old: Secret, new: Secret) -> bool:
        def work(db: sqlite3.Connection) -> bool:
            query = "DELETE FROM secrets WHERE kind = ? AND key = ? AND sealed = ? AND used = ?"
            found = db.execute(query, (old.kind, storable(old.key), old.sealed, old.used))
            if found.rowcount:
                db.execute("INSERT INTO secrets VALUES (?, ?, ?, ?, ?, ?, ?, ?)", secret_row(new))
            return found.rowcount == 1

        return await self._writer.run(work)

    async def delete_secret(self, kind: SecretKind, key: str) -> bool:
        query = "DELETE FROM secrets WHERE kind = ? AND key = ?"
        return await self._writer.run(lambda db: db.execute(query, (kind, storable(key))).rowcount == 1)

    async def forget_secrets(self, now: float) -> int:
        query = "DELETE FROM secrets WHERE expires_at <= ?"
        return await self._writer.run(lambda db: db.execute(query, (now,)).rowcount)

    async def acquire(self, name: str, owner: str, until: float, now: float) -> bool:
        query = """
            INSERT INTO leases VALUES (:name, :owner, :until)
            ON CONFLICT (name) DO UPDATE SET owner = :owner, until = :until
            WHERE leases.owner = :owner OR leases.until <= :now
        """
        values = {"name": storable(name), "owner": owner, "until": until, "now": now}
        return await self._writer.run(lambda db: db.execute(query, values).rowcount == 1)

    async def release(self, name: str, owner: str) -> None:
        query = "DELETE FROM leases WHERE name = ? AND owner = ?"
        await self._writer.run(lambda db: db.execute(query, (storable(name), owner)) and None)


_SELECT = "SELECT kind, key, sealed, source, principal, expires_at, used, updated_at FROM secrets"
