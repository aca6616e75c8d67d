"""A look at everything that may be wrong, asked for by a person: as `spindle doctor` does it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from spindle.errors import CallTimeoutError

LONGEST: Final = 120.0
"""Seconds that it may take."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that was found, and the way out."""

    level: Literal["ok", "note", "problem"]
    subject: str
    message: str
    fix: str | None = None
    path: str = ""
    """The page where it is mended, below `/console`."""


Examine = Callable[[], Awaitable[Sequence[Finding]]]


@dataclass(frozen=True, slots=True)
class Examined:
    """All that was found, at a time."""

    at: float
    findings: Sequence[Finding]


class Examination:
    """Examines the workspace once at a time, however many ask, and remembers what was found last."""

    def __init__(self, examine: Examine) -> None:
        self._examine = examine
        self._running: asyncio.Task[Examined] | None = None
        self.last: Examined | None = None

    async def run(self) -> Examined:
        """Examines everything, or waits for the one who does already."""
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._examined(), name="examining the workspace")
        return await asyncio.shield(self._running)

    async def _examined(self) -> Examined:
        try:
            async with asyncio.timeout(LONGEST):
                self.last = Examined(time.time(), await self._examine())
        except TimeoutError:
            raise CallTimeoutError(f"the examination did not end within {LONGEST:g} s") from None
        return self.last
