"""Requests that wait for their answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from spindle.domain.json_schema import JsonObject

if TYPE_CHECKING:
    from contextvars import Context

    from spindle.mcp_protocol.errors import RequestId

logger = logging.getLogger("spindle.mcp")

OnProgress = Callable[[float, float | None, str | None], Awaitable[None]]
"""Takes the progress of a request: how much is done, of how much, and a message."""


class Pending(asyncio.Future[JsonObject]):
    """A request that waits for its answer. Where that is read outside of all tasks, the task that waits goes
    on there and then: another turn of the event loop would take as long as to read the answer."""

    __slots__ = ("_waiter", "abandon", "id", "newest_progress", "on_progress", "reporting")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        id: RequestId,
        *,
        abandon: Callable[[Pending], None] | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        """`abandon` is told if nobody waits any more."""
        super().__init__(loop=loop)
        self.id = id
        self.abandon = abandon
        self.on_progress = on_progress
        self.newest_progress: Mapping[str, Any] | None = None
        self.reporting: asyncio.Task[None] | None = None
        self._waiter: tuple[Callable[[Pending], object], Context] | None = None

    def add_done_callback(self, fn: Callable[[Any], object], *, context: Context | None = None) -> None:
        super().add_done_callback(fn, context=context)
        if context is not None:
            self._waiter = fn, context  # as a task gives them

    def cancel(self, msg: Any | None = None) -> bool:
        is_cancelled = super().cancel(msg)
        if is_cancelled and self.abandon is not None:
            self.abandon(self)
        return is_cancelled

    def take(self, result: JsonObject) -> None:
        """Takes the result, for a task that goes on with `resume`."""
        if self._waiter is not None:
            self.remove_done_callback(self._waiter[0])
        self.set_result(result)

    def resume(self) -> None:
        """Has the task go on that waits for what was taken. Must not be called within a task."""
        if self._waiter is not None:
            (wake, context), self._waiter = self._waiter, None
            context.run(wake, self)

    def resume_soon(self) -> None:
        """The same in the next turn of the event loop."""
        self.get_loop().call_soon(self.resume)

    def expire(self, error: Exception) -> None:
        """Ends the wait with an error, unless the answer is there."""
        if not self.done():
            self.set_exception(error)

    async def report(self) -> None:
        """Passes progress on, the newest only: a slow listener falls behind, it does not queue up."""
        while self.newest_progress is not None and self.on_progress is not None:
            params, self.newest_progress = self.newest_progress, None
            done = params.get("progress")
            if not isinstance(done, (int, float)):
                continue
            try:
                await self.on_progress(done, params.get("total"), params.get("message"))
            except Exception as error:  # noqa: BLE001 - a listener's own mistake must not fail the call
                logger.warning("the progress listener failed: %r", error)


def resume_all(answered: Iterable[Pending]) -> None:
    """Has the tasks go on whose answers were read together. Must not be called within a task."""
    left = iter(answered)
    try:
        for pending in left:
            pending.resume()
    finally:
        for pending in left:  # after what ends a program, such as KeyboardInterrupt
            pending.resume_soon()
