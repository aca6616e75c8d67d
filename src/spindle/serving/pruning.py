"""Pruning the state of a workspace while it is served."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Final

from spindle.errors import SpindleError

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.ports.source import Note

logger = logging.getLogger("spindle")

LEASE: Final = 600.0
"""Seconds after which another process may prune instead of one that has died meanwhile."""
LEASE_NAME: Final = "retention"


@contextlib.asynccontextmanager
async def pruned_meanwhile(app: Spindle, note: Note) -> AsyncGenerator[None]:
    """Prunes the state now and then, for as long as this is entered."""
    app.settings.retention()  # raises where it has a mistake
    pruning = asyncio.create_task(BackgroundPruning(app, note).run(), name="pruning the state")
    try:
        yield
    finally:
        pruning.cancel()
        await asyncio.gather(pruning, return_exceptions=True)


class BackgroundPruning:
    """Prunes a served workspace, as its settings say at that time. Of several processes that share a store,
    one prunes at a time."""

    def __init__(
        self, app: Spindle, note: Note, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._app = app
        self._note = note
        self._sleep = sleep
        self._owner = secrets.token_hex(8)
        self._failed_with = ""

    async def run(self) -> None:
        """Prunes regularly. Not all processes that were started together do so at the same moment."""
        while True:
            every = self._app.settings.retention().every
            await self._sleep(every * random.uniform(0.75, 1.25))  # noqa: S311 - no secret
            if self._app.settings.retention().background:
                await self._prune_reported()

    async def _prune_reported(self) -> None:
        try:
            await self.prune_once()
        except SpindleError as error:
            # Said once, until it is another: the next look comes soon.
            if error.message != self._failed_with:
                self._note(f"the state could not be pruned: {error.message}")
            self._failed_with = error.message
        except Exception as error:
            logger.error("pruning the state failed", exc_info=error)
        else:
            self._failed_with = ""

    async def prune_once(self) -> bool:
        """Prunes once. False: another process is at it."""
        store = self._app.store
        if not await store.acquire(LEASE_NAME, self._owner, LEASE):
            return False
        try:
            pruner = self._app.pruner
            await pruner.prune(self._app.settings.retention())
            await pruner.give_space_back()
        finally:
            await store.release(LEASE_NAME, self._owner)
        return True
