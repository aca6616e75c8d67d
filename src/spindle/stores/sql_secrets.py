"""Secrets, stored as others have encrypted them, and locks between processes, as in every store of ours."""

from __future__ import annotations

from typing import ClassVar

from spindle.domain.identity import Secret, SecretKind
from spindle.stores.run_rows import SECRET, secret_from_row, secret_row
from spindle.stores.sql import SqlQueries, insert, select


class SqlSecrets(SqlQueries):
    """The parts of the store that `LeaseStore` and, but for `swap_secret`, `SecretStore` describe."""

    _acquire: ClassVar[str]
    """The statement that takes a lease which is free, or has ended by the store's clock."""

    async def secret(self, kind: SecretKind, key: str) -> Secret | None:
        query = f"{_SELECT} WHERE kind = :kind AND key = :key"
        rows = await self._rows(query, {"kind": kind, "key": key})
        return secret_from_row(rows[0]) if rows else None

    async def secrets(self, kind: SecretKind, *, source: str | None = None) -> list[Secret]:
        of_source = "" if source is None else " AND source = :source"
        query = f"{_SELECT} WHERE kind = :kind{of_source} ORDER BY source, principal, key"
        rows = await self._rows(query, {"kind": kind, "source": source})
        return [secret_from_row(row) for row in rows]

    async def save_secret(self, secret: Secret) -> None:
        await self._change(_UPSERT, secret_row(secret))

    async def delete_secret(self, kind: SecretKind, key: str) -> bool:
        statement = "DELETE FROM {schema}.secrets WHERE kind = :kind AND key = :key"
        # Not repeated: the caller that deletes a secret is the only one to use it.
        return await self._change(statement, {"kind": kind, "key": key}, again=False) == 1

    async def forget_secrets(self, now: float) -> int:
        return await self._change("DELETE FROM {schema}.secrets WHERE expires_at <= :now", {"now": now})

    async def acquire(self, name: str, owner: str, lease: float) -> bool:
        return await self._change(self._acquire, {"name": name, "owner": owner, "lease": lease}) == 1

    async def release(self, name: str, owner: str) -> None:
        statement = "DELETE FROM {schema}.leases WHERE name = :name AND owner = :owner"
        await self._change(statement, {"name": name, "owner": owner})


_SELECT = select("secrets", SECRET)
INSERT_SECRET = insert("secrets", SECRET)
_UPSERT = f"""
    {INSERT_SECRET}
    ON CONFLICT (kind, key) DO UPDATE SET sealed = excluded.sealed, source = excluded.source,
        principal = excluded.principal, expires_at = excluded.expires_at, used = excluded.used,
        updated_at = excluded.updated_at
"""
DELETE_SAME = """
    DELETE FROM {schema}.secrets WHERE kind = :kind AND key = :key AND sealed = :sealed AND used = :used
"""
ACQUIRE = """
    INSERT INTO {schema}.leases AS held (name, owner, until)
    VALUES (:name, :owner, {now} + CAST(:lease AS DOUBLE PRECISION))
    ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until
    WHERE held.owner = :owner OR """
"""To which a store adds its condition for a lease that has ended."""
