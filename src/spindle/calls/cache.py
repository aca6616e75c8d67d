"""Results of pure tools, kept for a time where the source's settings ask for it."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from spindle.calls.known_secrets import with_known
from spindle.calls.record import clean_json, secrets_in
from spindle.domain.json_schema import JsonObject, canonical
from spindle.errors import StoreError

if TYPE_CHECKING:
    from spindle.calls.prepared import PreparedTool
    from spindle.domain.call import Call, Result
    from spindle.domain.source import CacheConfig
    from spindle.domain.tool import Tool
    from spindle.ports.source import Note
    from spindle.ports.store import CacheStore


class ResultCache:
    """Keeps results in the store. A store that fails is noted, and costs only the cached result."""

    def __init__(self, store: CacheStore, now: Callable[[], float], note: Note) -> None:
        self._store = store
        self._now = now
        self._note = note

    async def get(self, prepared: PreparedTool, call: Call, ttl: float | None) -> Result | None:
        """Returns the result of the same call, if one is kept and still good."""
        tool, config = prepared.tool, prepared.config.cache
        if ttl is None or not _pure(tool, config):
            return None
        try:
            found = await self._store.cached(_key(prepared, call), self._now(), ttl)
        except StoreError as error:
            self._note(f"a cached result of {tool.name} could not be read: {error.message}")
            return None
        return None if found is None or _has_lost_a_file(found) else found

    async def put(self, prepared: PreparedTool, call: Call, ttl: float | None, result: Result) -> None:
        """Keeps the result for `ttl` seconds, unless it is an error or a question."""
        tool, config = prepared.tool, prepared.config.cache
        if result.is_error or result.asked is not None or call.answers is not None:
            return
        if ttl is None or not _pure(tool, config) or _holds_secret(result, tool, call.arguments):
            return
        now = self._now()
        try:
            await self._store.cache(_key(prepared, call), result, now + ttl, now)
        except (StoreError, TypeError) as error:
            # A value that the store cannot write, such as a number over 64 bits, is as good as uncached.
            self._note(f"the result of {tool.name} could not be cached: {error}")


def _holds_secret(result: Result, tool: Tool, arguments: JsonObject) -> bool:
    """True if the result repeats a secret that the call was given."""
    secrets = with_known(frozenset(secrets_in(arguments, tool.input_schema)))
    if not secrets:
        return False
    told = result.to_dict()
    return clean_json(told, secrets) != told


def _has_lost_a_file(result: Result) -> bool:
    """True if the limits for files have removed one that the result names."""
    return any(block.path is not None and not os.path.exists(block.path) for block in result.content)


def _pure(tool: Tool, config: CacheConfig | None) -> bool:
    patterns = config.tools if config is not None else ()
    return tool.pure or any(re.fullmatch(pattern, tool.local_name) for pattern in patterns)


def _key(prepared: PreparedTool, call: Call) -> str:
    """A changed tool, other code or settings behind it, other arguments, another principal or another
    credential never share a result."""
    tool = prepared.tool
    does = prepared.source.behaviour(tool)
    parts = [tool.name, tool.fingerprint, does, call.arguments, call.principal.id, call.credential.key]
    return hashlib.sha256(canonical(parts)).hexdigest()
