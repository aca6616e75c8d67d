"""A session of another kind of source inside ours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from spindle.ports.source import Session


class Delegate:
    """Opened when it is first needed. One task of its own enters and leaves it, as a session wants."""

    def __init__(self, open_: Callable[[], AbstractAsyncContextManager[Session]]) -> None:
        self._open = open_
        self._owner: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[Session] | None = None
        self._closing = asyncio.Event()

    async def session(self) -> Session:
        if self._ready is None or (self._ready.done() and self._ready.exception() is not None):
            self._ready = asyncio.get_running_loop().create_future()
            self._owner = asyncio.create_task(self._own(self._ready))
        return await asyncio.shield(self._ready)

    async def aclose(self) -> None:
        self._closing.set()
        if self._owner is not None:
            await self._owner

    async def _own(self, ready: asyncio.Future[Session]) -> None:
        try:
            async with self._open() as session:
                ready.set_result(session)
                await self._closing.wait()
        except Exception as error:
            if ready.done():
                raise
            ready.set_exception(error)
