"""Requests that wait for each other, and are let go the last first."""

from __future__ import annotations

import asyncio


class Meeting:
    """Lets everybody pass, until it is told how many to expect."""

    def __init__(self) -> None:
        self._expected = 0
        self._waiting: list[asyncio.Future[None]] = []

    def expect(self, count: int) -> None:
        """Hold the next so many."""
        self._expected = count

    async def join(self) -> None:
        """Returns when all who are expected have come: to the last first."""
        if self._expected == 0:
            return
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        if len(self._waiting) == self._expected:
            self._expected = 0
            for waiting in reversed(self._waiting):
                waiting.set_result(None)
            self._waiting.clear()
        await mine
