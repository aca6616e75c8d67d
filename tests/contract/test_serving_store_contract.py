"""What every store must do for servers that share it: the audit log, and what administrators change."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from contract.test_retention_contract import every_entry
from servers.postgres import PostgresServer
from spindle.domain.access_entry import AccessEntry
from spindle.domain.audit import AuditEntry, AuditFilter
from spindle.ports.store import Store
from spindle.stores.postgres import PostgresStore
from spindle.stores.sqlite import SqliteStore

ENTRIES = [
    AuditEntry(1.0, "call", "fs.read", "ann", call="k1", door="http"),
    AuditEntry(2.0, "enter", "POST /mcp", allowed=False, outcome="auth", reason="no token", address="::1"),
    AuditEntry(3.0, "token.create", "ci", "ann"),
    AuditEntry(4.0, "tokens", "not one of token", "bob"),
]
CHANGE = AuditEntry(9.0, "token.create", "ci", "local", door="shell")


async def targets(store: Store, **where: object) -> list[str]:
    return [entry.target for entry in await store.audit(AuditFilter(**where), limit=99)]  # type: ignore[arg-type]


async def test_the_audit_log_is_read_from_the_newest_and_by_filters(store: Store) -> None:
    await store.append_audit(ENTRIES[:2])
    await store.append_audit(ENTRIES[2:])
    found = await store.audit(AuditFilter(), limit=3)
    assert [entry.target for entry in found] == ["not one of token", "ci", "POST /mcp"]
    assert found[2]._replace(id=0) == ENTRIES[1]
    assert await targets(store, principal="ann") == ["ci", "fs.read"]
    assert await targets(store, action="token") == ["ci"]
    assert await targets(store, allowed=False) == ["POST /mcp"]
    assert await targets(store, since=2.0, until=4.0) == ["ci", "POST /mcp"]
    assert await targets(store, target="ci", principal="bob") == []
    later = await store.audit(AuditFilter(), limit=2, after=found[2].id - 1)
    assert [entry.target for entry in later] == ["POST /mcp", "ci"]


async def test_many_entries_of_the_audit_log_keep_their_order(store: Store) -> None:
    await store.append_audit([AuditEntry(float(number), "call", f"t{number}") for number in range(150)])
    found = await store.audit(AuditFilter(), limit=200, after=0)
    assert [entry.target for entry in found] == [f"t{number}" for number in range(150)]


async def test_the_audit_log_is_pruned_like_other_records(store: Store) -> None:
    await store.append_audit(ENTRIES)
    oldest = (await every_entry(store, "audit"))[-2:]
    assert (await store.remove("audit", [entry.key for entry in oldest])).count == 2
    assert await targets(store) == ["not one of token", "ci"]


async def test_an_entry_of_the_audit_log_is_neither_changed_nor_deleted_by_hand(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "state.db") as store:
        await store.append_audit(ENTRIES)
    with sqlite3.connect(tmp_path / "state.db") as db:
        for statement in ("UPDATE audit SET principal = 'x'", "DELETE FROM audit"):
            with pytest.raises(sqlite3.IntegrityError, match="only ever added to"):
                db.execute(statement)


async def test_nor_in_postgres(postgres_url: str, postgres_server: PostgresServer) -> None:
    async with PostgresStore(postgres_url) as store:
        await store.append_audit(ENTRIES)
        schema = store._db.address.schema
        for statement in ("UPDATE {}.audit SET principal = 'x'", "DELETE FROM {}.audit"):
            with pytest.raises(Exception, match="only ever added to"):
                postgres_server.execute(statement.format(f'"{schema}"'))
        assert len(await store.audit(AuditFilter(), limit=9)) == 4


async def test_a_change_of_access_is_counted_and_noted_with_it(two_stores: tuple[Store, Store]) -> None:
    one, other = two_stores
    before = await other.access_version()
    entry = AccessEntry("token", "ci", {"digest": "ab", "groups": ["staff"]}, 5.0, "local")
    assert await one.put_access_entry(entry, CHANGE, new=True)
    assert await other.access_entries() == [entry]
    assert await other.access_version() != before
    assert await targets(other) == ["ci"]


async def test_what_changes_nothing_is_not_noted(store: Store) -> None:
    entry = AccessEntry("token", "ci", {}, 5.0, "local")
    assert await store.put_access_entry(entry, CHANGE, new=True)
    version = await store.access_version()
    assert not await store.put_access_entry(entry, CHANGE, new=True)
    assert not await store.delete_access_entry("group", "ci", CHANGE)
    assert await store.access_version() == version
    assert await targets(store) == ["ci"]
    assert await store.put_access_entry(AccessEntry("token", "ci", {"a": 1}, 6.0, "x"), CHANGE)
    assert await store.delete_access_entry("token", "ci", CHANGE)
    assert await store.access_entries() == []
    assert await targets(store) == ["ci"] * 3
