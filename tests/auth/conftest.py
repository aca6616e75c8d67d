from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from servers.names import echo, names
from servers.odd_provider import OddProvider
from spindle.auth.access import SourceAccess
from spindle.auth.encryption import Sealer
from spindle.auth.keys import VARIABLE, Keys, new_key
from spindle.calls.caller import Clock
from spindle.domain.identity import LOCAL, Principal
from spindle.domain.source import SourceConfig
from spindle.errors import NotFoundError
from spindle.settings.auth import AuthSettings
from spindle.sources.mcp.config import McpConfig
from spindle.stores.sqlite import SqliteStore

__all__ = ["echo", "names"]


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
        self._configs: dict[str, SourceConfig] = {}
        self._made: list[SourceAccess] = []
        self.oauth = self.another()

    def another(self, sealer: Sealer | None = None, **options: Any) -> SourceAccess:
        """As another process would have it."""
        settings = AuthSettings(consent="anyone")  # who comes back is the business of other tests
        keys = Keys(settings, {VARIABLE: self.key}, self.path.parent)
        made = SourceAccess(
            self.store, sealer or self.sealer, keys, settings, self._config, now=self.turned.now, **options
        )
        self._made.append(made)
        return made

    def source(self, name: str, config: SourceConfig | None) -> str:
        """The name of a source that has these settings from now on; None: that has none any more."""
        self._configs.pop(name, None)
        if config is not None:
            self._configs[name] = config
        return name

    def _config(self, source: str) -> SourceConfig:
        if source not in self._configs:
            raise NotFoundError(f"there is no source {source!r}")
        return self._configs[source]

    async def log_in(self, config: SourceConfig, source: str = "s", who: Principal = LOCAL) -> None:
        """Consent at the odd provider, which needs no user."""
        asked = await self.oauth.begin(self.source(source, config), who)
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
