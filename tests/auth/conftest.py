from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from servers.odd_provider import OddProvider
from spindle.auth.encryption import Sealer
from spindle.auth.keys import new_key
from spindle.auth.oauth import OAuth
from spindle.calls.caller import Clock
from spindle.domain.identity import LOCAL, Principal
from spindle.domain.source import SourceConfig
from spindle.sources.mcp.config import McpConfig
from spindle.stores.sqlite import SqliteStore


@dataclass
class Turned:
    """A clock that a test turns."""

    offset: float = 0.0
    clock: Clock = field(init=False)

    def __post_init__(self) -> None:
        self.clock = Clock(now=self.now)

    def now(self) -> float:
        return time.time() + self.offset


@pytest.fixture
def turned() -> Turned:
    return Turned()


@pytest.fixture
async def odd() -> AsyncIterator[OddProvider]:
    async with OddProvider().running() as provider:
        yield provider


def oauth_config(url: str, **auth: Any) -> SourceConfig:
    return McpConfig.model_validate({"kind": "mcp", "url": url, "auth": {"type": "oauth", **auth}})


class Bench:
    """OAuth over a store in a file, without an app around it."""

    def __init__(self, store: SqliteStore, path: Path, key: str, turned: Turned) -> None:
        self.store = store
        self.path = path
        self.key = key
        self.sealer = Sealer(lambda: [key])
        self.turned = turned
        self._made: list[OAuth] = []
        self.oauth = self.another()

    def another(self, **options: Any) -> OAuth:
        """As another process would have it."""
        made = OAuth(self.store, self.sealer, **{"now": self.turned.now, **options})
        self._made.append(made)
        return made

    async def log_in(self, config: SourceConfig, source: str = "s", who: Principal = LOCAL) -> None:
        """Consent at the odd provider, which needs no user."""
        asked = await self.oauth.begin(source, config, who)
        await self.oauth.complete("a-code", asked.state)

    async def close(self) -> None:
        for made in self._made:
            await made.close()


@pytest.fixture
async def bench(tmp_path: Path, turned: Turned) -> AsyncIterator[Bench]:
    key = new_key()
    path = tmp_path / "oauth.db"
    store = await SqliteStore(str(path)).open()
    bench = Bench(store, path, key, turned)
    try:
        yield bench
    finally:
        await bench.close()
        await store.close()
