"""Doing a thing once for all who want it: in this process by a shared task, between processes by a lease."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Hashable
from typing import TYPE_CHECKING, Any, TypeVar

from spindle.errors import ConnectionFailedError, SpindleError
from spindle.ports.store import LEASE

if TYPE_CHECKING:
    from spindle.ports.store import LeaseStore

T = TypeVar("T")

LOOK_AGAIN = 0.05
CLOSE_TIMEOUT = 5.0


class Flights:
    """Work that several callers share. None of them can cancel it for the others."""

    def __init__(self) -> None:
        self._tasks: dict[Hashable, asyncio.Task[Any]] = {}

    async def share(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.create_task(work(), name=f"oauth {key}")
            task.add_done_callback(lambda done: self._landed(key, done))
        try:
            return await asyncio.shield(task)
        except SpindleError as error:
            # Each caller fills in which call of its own failed.
            raise copy.copy(error) from None

    def _landed(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(key, None)
        if not task.cancelled():
            task.exception()  # all callers may have gone; it is not a mistake that nobody looks

    async def close(self) -> None:
        """Lets a refresh that is under way save its tokens, then ends."""
        tasks = list(self._tasks.values())
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=CLOSE_TIMEOUT)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)


class SharedLocks:
    """Locks that hold between tasks of this process and between processes."""

    def __init__(self, store: LeaseStore) -> None:
        self._store = store
        self._owner = secrets.token_hex(8)
        self._local: dict[str, tuple[asyncio.Lock, int]] = {}

    @contextlib.asynccontextmanager
    async def hold(self, name: str) -> AsyncGenerator[None]:
        async with self._hold_here(name):
            await self._acquire(name)
            try:
                yield
            finally:
                await self._store.release(name, self._owner)

    @contextlib.asynccontextmanager
    async def _hold_here(self, name: str) -> AsyncGenerator[None]:
        lock, users = self._local.get(name, (asyncio.Lock(), 0))
        self._local[name] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._local.pop(name)
            if users > 1:
                self._local[name] = (lock, users - 1)

    async def _acquire(self, name: str) -> None:
        deadline = time.monotonic() + 2 * LEASE
        while True:
            if await self._store.acquire(name, self._owner, LEASE):
                return
            if time.monotonic() > deadline:
                raise ConnectionFailedError(
                    "another process has been busy with the same login for too long",
                    hint="try again",
                    sent=False,
                )
            await asyncio.sleep(LOOK_AGAIN)
