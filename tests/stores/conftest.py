from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from spindle.stores.sqlite import SqliteStore


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "state.db"


@pytest.fixture
async def memory() -> AsyncIterator[SqliteStore]:
    async with SqliteStore(":memory:") as store:
        yield store
