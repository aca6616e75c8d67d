"""The tokens, groups and quotas in the store, kept up to date in a server while others change them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Final

from spindle.catalog.diff import SyncReport
from spindle.errors import SpindleError
from spindle.serving.quota_gate import QuotaGate

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.ports.serving_store import AccessStore
    from spindle.serving.access import ServingAccess

logger = logging.getLogger("spindle.serve")

EVERY: Final = 0.5
"""Seconds between two looks for changes."""
SOONEST: Final = 0.1
"""Seconds between two looks for a token that is not known."""


class SharedAccess:
    """Takes over what is in the store, whoever put it there."""

    def __init__(self, store: AccessStore, access: ServingAccess, changed: Callable[[], None]) -> None:
        self._store = store
        self._access = access
        self._changed = changed
        self._version = -1
        self._looked_at = float("-inf")
        self._looking = asyncio.Lock()

    async def load(self) -> None:
        """Takes over what there is."""
        self._version = await self._store.access_version()
        self._access.share(await self._store.access_entries())

    async def look(self) -> None:
        """Takes over what changed."""
        async with self._looking:
            has_changed = await self._take_over()
        if has_changed:
            await self._tell()

    async def look_for_token(self) -> None:
        """The same, for a token that is not known: it may have been made a moment ago. Looks are a while
        apart, so that the store does not notice who guesses; those who wait for one share it."""
        asked_at = time.monotonic()
        try:
            async with self._looking:
                if self._looked_at >= asked_at:
                    return
                await asyncio.sleep(self._looked_at + SOONEST - asked_at)
                has_changed = await self._take_over()
        except SpindleError:
            return  # what is known stays in force
        if has_changed:
            await self._tell()

    async def _take_over(self) -> bool:
        """True if anything has changed."""
        self._looked_at = time.monotonic()
        if await self._store.access_version() == self._version:
            return False
        await self.load()
        return True

    async def _tell(self) -> None:
        await self._access.end_revoked()
        self._changed()

    async def run(self) -> None:
        """Looks again and again."""
        failed = False
        while True:
            await asyncio.sleep(EVERY)
            try:
                await self.look()
                failed = False
            except SpindleError as error:
                if not failed:
                    logger.warning("tokens, groups and quotas stay as they are: %s", error.message)
                failed = True


@contextlib.asynccontextmanager
async def sharing(app: Spindle, access: ServingAccess) -> AsyncGenerator[None]:
    """Has a server follow what administrators change, meanwhile."""

    def changed() -> None:
        # Other tools may exist for those who listen, and some may not listen any more.
        app.catalog.tell(SyncReport(""))

    if app.store.is_server:
        access.count_in(app.store)
    gate = QuotaGate(app.store)
    access.count_by(gate)
    shared = SharedAccess(app.store, access, changed)
    await shared.load()
    await access.end_revoked()
    access.look_for_token = shared.look_for_token
    access.look_for_changes = shared.look
    tasks = [
        asyncio.create_task(shared.run(), name="looking for changes of access"),
        asyncio.create_task(gate.run(), name="keeping the places of quotas"),
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
