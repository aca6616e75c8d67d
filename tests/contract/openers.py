"""The stores that must fulfil the contract. Another implementation is one more entry in `OPENERS`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from spindle.ports.store import Store
from spindle.stores.postgres import PostgresStore
from spindle.stores.sqlite import SqliteStore

Opener = Callable[[pytest.FixtureRequest], Awaitable[Store]]

OPENERS: dict[str, Opener] = {
    "sqlite file": lambda request: SqliteStore(request.getfixturevalue("tmp_path") / "state.db").open(),
    "sqlite memory": lambda request: SqliteStore(":memory:").open(),
    "postgres": lambda request: PostgresStore(request.getfixturevalue("postgres_url")).open(),
}
SHARED = ("sqlite file", "postgres")
"""Stores that two objects can open at once."""
