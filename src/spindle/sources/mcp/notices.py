"""Notices of a server, passed on at a pace: a storm of them reaches nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from spindle.catalog.pace import LONGEST, SHORTEST, Pace
from spindle.domain.bounded import BoundedMap

if TYPE_CHECKING:
    from spindle.domain.json_schema import JsonObject

MAX_KEYS = 10_000
UPDATED = "notifications/resources/updated"

Key = tuple[str, str, str]
Pass = Callable[[str, "JsonObject", str], None]
"""Takes a notice: its method, its parameters, and whose it is."""


class PacedNotices:
    """Passes the notices of one source on: each kind, and each resource, at its own pace. Of those that come
    meanwhile the last one is kept, and passed on when it is time."""

    def __init__(self, pass_on: Pass) -> None:
        self._pass_on = pass_on
        self._paces: BoundedMap[Key, Pace] = BoundedMap(MAX_KEYS)
        self._waiting: dict[Key, tuple[JsonObject, asyncio.TimerHandle]] = {}

    def tell(self, method: str, params: JsonObject, whose: str) -> None:
        """Passes a notice on, now or later; one that waits already stands for it."""
        key = (method, str(params.get("uri", "")), whose)
        if key in self._waiting:
            return
        # A resource may change all the time, and whoever watches it wants to know; a list does not.
        pace = self._paces.setdefault(key, Pace(SHORTEST if method == UPDATED else LONGEST))
        wait = pace.wait()
        if wait <= 0 or len(self._waiting) >= MAX_KEYS:
            pace.happened()
            self._pass_on(method, params, whose)
            return
        later = asyncio.get_running_loop().call_later(wait, self._due, key)
        self._waiting[key] = (params, later)

    def flush(self) -> None:
        """Passes on at once what waits, because the session is over."""
        for key in list(self._waiting):
            self._waiting[key][1].cancel()
            self._due(key)

    def _due(self, key: Key) -> None:
        params, _ = self._waiting.pop(key)
        method, _, whose = key
        pace = self._paces.get(key)
        if pace is not None:
            pace.happened()
        self._pass_on(method, params, whose)
