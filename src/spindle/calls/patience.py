"""A call's time limit stands still while whoever made the call is being asked something."""

from __future__ import annotations

import asyncio
from typing import Any

from spindle.domain.call import Peer
from spindle.domain.json_schema import JsonObject


class PatientPeer:
    def __init__(self, peer: Peer, timer: asyncio.Timeout, limit: float) -> None:
        self._peer = peer
        self._timer = timer
        self._limit = limit
        self._asked = 0

    @property
    def owner(self) -> object:
        return self._peer.owner

    @property
    def capabilities(self) -> JsonObject:
        return self._peer.capabilities

    @property
    def log_level(self) -> str | None:
        return self._peer.log_level

    def log(self, level: str, data: Any, logger: str | None) -> None:
        self._peer.log(level, data, logger)

    def can_answer(self, method: str) -> bool:
        return self._peer.can_answer(method)

    async def ask(self, method: str, params: JsonObject | None) -> JsonObject:
        self._asked += 1
        self._set(None)
        try:
            return await self._peer.ask(method, params)
        finally:
            self._asked -= 1
            if not self._asked:
                self._set(asyncio.get_running_loop().time() + self._limit)

    def _set(self, when: float | None) -> None:
        if not self._timer.expired():
            self._timer.reschedule(when)
