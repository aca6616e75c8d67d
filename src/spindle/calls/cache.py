"""Results of pure tools, kept for a time where the source's settings ask for it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from spindle.domain.json_schema import canonical

if TYPE_CHECKING:
    from spindle.domain.call import Call, Result
    from spindle.domain.source import CacheConfig
    from spindle.domain.tool import Tool
    from spindle.ports.store import CacheStore


class ResultCache:
    def __init__(self, store: CacheStore, now: Callable[[], float]) -> None:
        self._store = store
        self._now = now

    async def get(
        self, tool: Tool, call: Call, config: CacheConfig | None, ttl: float | None
    ) -> Result | None:
        if ttl is None or not _pure(tool, config):
            return None
        return await self._store.cached(_key(tool, call), self._now())

    async def put(
        self, tool: Tool, call: Call, config: CacheConfig | None, ttl: float | None, result: Result
    ) -> None:
        if result.is_error or result.asked is not None or call.answers is not None:
            return
        if ttl is not None and _pure(tool, config):
            now = self._now()
            await self._store.cache(_key(tool, call), result, now + ttl, now)


def _pure(tool: Tool, config: CacheConfig | None) -> bool:
    patterns = config.tools if config is not None else ()
    return tool.pure or any(re.fullmatch(pattern, tool.local_name) for pattern in patterns)


def _key(tool: Tool, call: Call) -> str:
    """A changed tool, other arguments, another principal or another credential never share a result."""
    parts = [tool.name, tool.fingerprint, call.arguments, call.principal.id, call.credential.key]
    return hashlib.sha256(canonical(parts)).hexdigest()
