"""The event loop of an open workspace, for libraries that call from another loop or from a blocking
thread."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from spindle.errors import ConnectionFailedError

T = TypeVar("T")


class Home:
    """Runs work on the loop that was running when this was made."""

    def __init__(self) -> None:
        running = _running()
        if running is None:
            raise RuntimeError(
                "get tools on the event loop of the workspace: in async code, or with `s.wait(…)` of a "
                "blocking Spindle"
            )
        self._loop = running

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs the work on the workspace's loop and awaits it."""
        if asyncio.get_running_loop() is self._loop:
            return await work
        return await asyncio.wrap_future(self._start(work))

    def wait(self, work: Coroutine[Any, Any, T], instead: str) -> T:
        """Runs the work on the workspace's loop and blocks until it is done. Raises RuntimeError on that
        loop itself, where it would wait forever."""
        if _running() is self._loop:
            work.close()
            raise RuntimeError(f"this would block the event loop that has to do the work: use {instead}")
        future = self._start(work)
        try:
            return future.result()
        except BaseException:
            # Ctrl-C while waiting: the call is not left running behind the user's back.
            future.cancel()
            raise

    def _start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        if self._loop.is_closed() or not self._loop.is_running():
            work.close()
            raise ConnectionFailedError("this Spindle was closed", hint="open it again", sent=False)
        return asyncio.run_coroutine_threadsafe(work, self._loop)


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
