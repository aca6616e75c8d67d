"""A session and the task that owns it.

The owner enters and leaves the session, because libraries that scope tasks to a session want both
done by the same task; and when a session's own machinery fails, it is the owner that is cancelled,
never a caller.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from spindle.domain import trail
from spindle.domain.nested_errors import innermost
from spindle.errors import ConnectionFailedError, SpindleError

if TYPE_CHECKING:
    from spindle.domain.identity import Credential
    from spindle.domain.source import SourceConfig
    from spindle.ports.source import Session, Source


CLOSE_TIMEOUT = 15.0


class Use(Protocol):
    """Somebody who has a session in hand."""

    def interrupt(self) -> None:
        """Ends what it does with the session, which is about to be closed."""
        ...


class Connection:
    """One session and the task that owns it."""

    def __init__(
        self,
        name: str,
        source: Source[Any],
        config: SourceConfig,
        credential: Credential,
        on_change: Callable[[], None],
        on_ready: Callable[[Connection, Session], None],
        on_free: Callable[[], None],
        workspace: str,
        before_open: Callable[[], None],
    ) -> None:
        """`on_free` is called when its place may go to another."""
        self.name = name
        self.key: tuple[str, str, str] = (name, credential.key, "")
        """Whom it serves: the source, the key of a credential, and the holder of the session."""
        self._source = source
        self._config = config
        self._credential = credential
        self._on_change = on_change
        self._on_ready = on_ready
        self._on_free = on_free
        self._before_open = before_open
        self._ready: asyncio.Future[Session] = asyncio.get_running_loop().create_future()
        self._stop = asyncio.Event()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        """True from when it takes no further calls."""
        self._retired = False
        self.uses: set[Use] = set()
        """Those who have the session in hand."""
        self._unused = asyncio.Event()
        self.is_reserved = False
        """True while one call uses it alone."""
        self.users = 0
        """Those who want the session. While there are any, it is not closed as idle."""
        self.ready: Session | None = None
        """The session, from when it is open."""
        self.last_used = time.monotonic()
        self.lost_because: str | None = None
        # It may serve others than whoever made it open, so it is opened for the workspace itself.
        context = trail.own_context(workspace)
        self.task = asyncio.create_task(self._own(), name=f"session of {name}", context=context)

    @property
    def usable(self) -> bool:
        """True if it takes further calls."""
        if self._is_closed:
            return False
        # The owner hears of a loss later than those whose calls it fails, who may be here already.
        return self.ready is None or not self.ready.is_lost

    def is_free(self) -> bool:
        """True if it takes further calls beside those that run."""
        if self._is_closed or self.is_reserved:
            return False
        ready = self.ready
        return ready is None or not (ready.is_lost or ready.is_occupied)

    @property
    def opening(self) -> bool:
        """True until its session is open, or could not be opened."""
        return not self._ready.done()

    async def session(self) -> Session:
        """Returns the session once it is open, or raises the reason why it cannot be opened."""
        if self._ready.done():
            return self._ready.result()
        # Shielded: a caller that gives up must not end the opening that others wait for.
        return await asyncio.shield(self._ready)

    def release(self) -> None:
        """Counts one user less. The last one starts the idle timer, or ends one that was retired; its
        place may go to another then, who is to be told."""
        self.users -= 1
        self.last_used = time.monotonic()
        if self.users > 0:
            return
        if self._retired:
            self.stop()
        elif self._idle_timer is None and self.usable:
            self._wait_until_idle(self._config.idle_timeout)

    def _wait_until_idle(self, seconds: float) -> None:
        self._idle_timer = asyncio.get_running_loop().call_later(seconds, self._stop_if_idle)

    def _stop_if_idle(self) -> None:
        # One timer that looks again later, instead of a new one after every call.
        self._idle_timer = None
        left = self.last_used + self._config.idle_timeout - time.monotonic()
        if self.users == 0 and left <= 0:
            self.stop()
        elif self.users == 0:
            self._wait_until_idle(left)

    def retire(self) -> None:
        """Takes no more calls, and ends with the last of those that run; at once if there is none."""
        self._is_closed = self._retired = True
        if self.users == 0:
            self.stop()
            if self.opening:
                self.task.cancel()
        self._on_free()

    def serve_once(self) -> None:
        """Takes only the calls of whoever uses it first, and ends with them."""
        self._is_closed = self._retired = True

    def stop(self) -> None:
        """Has the owner end the calls that run, and close the session."""
        self._is_closed = True
        self._stop.set()
        if self._idle_timer is not None:
            self._idle_timer.cancel()

    async def _own(self) -> None:
        try:
            async with contextlib.AsyncExitStack() as stack:
                session = await self._open(stack)
                self._on_ready(self, session)
                self.ready = session
                self._ready.set_result(session)
                await self._until_stopped_or_lost(session)
        except asyncio.CancelledError:
            # A session's own task group cancels its owner when the link breaks under it.
            self._failed(ConnectionFailedError(f"the session with {self.name!r} broke off", sent=False))
        except Exception as error:  # noqa: BLE001 - a task's top: callers get it, as a typed error
            self._failed(error)
        finally:
            self._is_closed = True

    async def _open(self, stack: contextlib.AsyncExitStack) -> Session:
        limit = self._config.connect_timeout
        self._before_open()
        try:
            async with asyncio.timeout(limit):
                return await stack.enter_async_context(self._source.open(self._credential, self._on_change))
        except TimeoutError:
            raise ConnectionFailedError(
                f"{self.name!r} was not ready within {limit:g} s",
                hint=f"raise sources.{self.name}.connect_timeout if it is only slow to start",
                sent=False,
            ) from None

    def end(self, use: Use) -> None:
        """Notes that a caller is done with the session."""
        self.uses.discard(use)
        if self._is_closed and not self.uses:
            self._unused.set()

    async def _interrupt_uses(self) -> None:
        """Ends the calls that still run, while the session can still tell its source."""
        for use in self.uses:
            use.interrupt()
        while self.uses:
            self._unused.clear()
            await self._unused.wait()

    async def _until_stopped_or_lost(self, session: Session) -> None:
        lost = asyncio.create_task(session.wait_closed())
        stopped = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({lost, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if lost.done():
                self.lost_because, self._is_closed = lost.result(), True
            else:
                await self._interrupt_uses()
        finally:
            lost.cancel()
            stopped.cancel()

    def _failed(self, error: BaseException) -> None:
        self._is_closed = True
        self.lost_because = self.lost_because or str(error) or type(error).__name__
        if not self._ready.done():
            self._ready.set_exception(as_connection_error(error, self.name))
            # Callers may all have given up; an exception nobody fetches would be logged as a mistake.
            self._ready.exception()


async def stop_all(connections: Sequence[Connection]) -> None:
    """Closes these sessions and ends the calls that use them, those that cannot be closed after a while."""
    if not connections:
        return
    for connection in connections:
        connection.stop()
        # One that is still opening does not listen for the stop yet; it is cancelled.
        if connection.opening:
            connection.task.cancel()
    tasks = {connection.task for connection in connections}
    _, stuck = await asyncio.wait(tasks, timeout=CLOSE_TIMEOUT)
    for task in stuck:
        task.cancel()
    if stuck:
        await asyncio.wait(stuck, timeout=CLOSE_TIMEOUT)


def as_connection_error(error: BaseException, name: str) -> SpindleError:
    """Returns the typed error for whatever a failed opening raised, without the wrappers of task groups."""
    error = innermost(error)
    if isinstance(error, SpindleError):
        return error
    reason = str(error) or type(error).__name__
    return ConnectionFailedError(f"cannot open {name!r}: {reason}", sent=False)
