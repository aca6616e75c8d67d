"""Watching a resource: its changes, one after the other, also after its source was lost and came back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from spindle.domain.resource import ResourceChange
from spindle.errors import ConnectionFailedError

if TYPE_CHECKING:
    from spindle.calls.relay import SourceRelay
    from spindle.domain.identity import Principal
    from spindle.domain.peer import SessionHolder
    from spindle.ports.source import Note

ATTEMPTS = 5
"""Failures in a row, of reaching a source again, after which a watch ends."""
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0


class ResourceWatch:
    """The changes of one resource: `async for change in watch`. Entered with `async with`, it begins at once,
    and ends with the block; otherwise it begins with the first change that is asked for. Changes that come
    faster than they are taken are one."""

    def __init__(
        self,
        relay: SourceRelay,
        locate: Callable[[], Awaitable[tuple[str, str]]],
        principal: Principal,
        note: Note,
    ) -> None:
        self._relay = relay
        self._locate = locate
        self._principal = principal
        self._note = note
        self._task: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._heard = asyncio.Event()
        self._last: ResourceChange | None = None

    async def __aenter__(self) -> ResourceWatch:
        await self._begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> ResourceWatch:
        return self

    async def __anext__(self) -> ResourceChange:
        task = await self._begin()
        await self._heard.wait()
        if self._last is None:
            self._end_of(task)
            raise StopAsyncIteration
        change, self._last = self._last, None
        if not task.done():
            self._heard.clear()
        return change

    async def close(self) -> None:
        """Stops watching."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _begin(self) -> asyncio.Task[None]:
        if self._task is None:
            source, uri = await self._locate()
            self._task = asyncio.create_task(self._follow(source, uri), name=f"watch of {uri}")
            self._task.add_done_callback(self._ended)
        await self._ready.wait()
        if self._task.done() and self._last is None:
            self._end_of(self._task)
        return self._task

    def _end_of(self, task: asyncio.Task[None]) -> None:
        """Raises why the watch ended, unless it was closed."""
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            raise error

    def _ended(self, _task: asyncio.Task[None]) -> None:
        self._ready.set()
        self._heard.set()

    async def _follow(self, source: str, uri: str) -> None:
        def changed() -> None:
            self._last = ResourceChange(uri, source, time.time())
            self._heard.set()

        await follow(self._relay, source, self._principal, uri, changed, self._note, self._ready.set)


async def follow(
    relay: SourceRelay,
    source: str,
    principal: Principal,
    uri: str,
    changed: Callable[[], None],
    note: Note,
    on_ready: Callable[[], None] = lambda: None,
    client: SessionHolder | None = None,
) -> None:
    """Watches a resource of a source until cancelled, also after the source was lost and came back: then it
    counts as changed. Raises the reason why it cannot be watched, or no longer."""
    failures, was_ready = 0, False

    def ready() -> None:
        nonlocal failures, was_ready
        if failures:
            changed()  # perhaps, while nobody listened
        failures, was_ready = 0, True
        on_ready()

    while True:
        try:
            await relay.watch(source, principal, uri, changed, ready, client)
        except ConnectionFailedError as error:
            failures += 1
            if failures >= ATTEMPTS or not was_ready:
                raise
            note(f"{error.message}; watching again")
            await asyncio.sleep(min(FIRST_WAIT * 2 ** (failures - 1), LONGEST_WAIT))
