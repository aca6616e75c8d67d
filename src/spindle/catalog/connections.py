"""Sessions: one for each (source, credential), each owned by one task. Where a session shows every
caller's own credential, one serves them all.

The owner enters and leaves the session, because libraries that scope tasks to a session want both
done by the same task; and when a session's own machinery fails, it is the owner that is cancelled,
never a caller. Opening is single-flight, parallel calls share a session, a lost one is opened again
by the next call, and an idle one closes.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from spindle.domain import trail
from spindle.domain.identity import Credential
from spindle.errors import ConnectionFailedError, LoopError, SpindleError, innermost

if TYPE_CHECKING:
    from types import TracebackType

    from spindle.domain.source import SourceConfig
    from spindle.ports.source import Session, Source

CLOSE_TIMEOUT = 15.0


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
        workspace: str,
    ) -> None:
        self.name = name
        self._source = source
        self._config = config
        self._credential = credential
        self._on_change = on_change
        self._on_ready = on_ready
        self._ready: asyncio.Future[Session] = asyncio.get_running_loop().create_future()
        self._stop = asyncio.Event()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._retired = False
        self._uses: set[_Use] = set()
        self._unused = asyncio.Event()
        self.users = 0
        self.last_used = time.monotonic()
        self.lost_because: str | None = None
        # It may serve others than whoever made it open, so it is opened for the workspace itself.
        context = trail.own_context(workspace)
        self.task = asyncio.create_task(self._own(), name=f"session of {name}", context=context)

    @property
    def usable(self) -> bool:
        """True if it takes further calls."""
        return not (self.task.done() or self._stop.is_set() or self.lost_because or self._retired)

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

    def acquire(self) -> None:
        """Counts one more user, so that it is not closed as idle."""
        self.users += 1

    def release(self) -> None:
        """Counts one user less. The last one starts the idle timer, or ends a connection that was retired."""
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
        """Takes no more calls, and ends with the last of those that run."""
        self._retired = True

    def stop(self) -> None:
        """Has the owner end the calls that run, and close the session."""
        self._stop.set()
        if self._idle_timer is not None:
            self._idle_timer.cancel()

    async def _own(self) -> None:
        try:
            async with contextlib.AsyncExitStack() as stack:
                session = await self._open(stack)
                self._on_ready(self, session)
                self._ready.set_result(session)
                await self._until_stopped_or_lost(session)
        except asyncio.CancelledError:
            # A session's own task group cancels its owner when the link breaks under it.
            self._failed(ConnectionFailedError(f"the session with {self.name!r} broke off", sent=False))
        except Exception as error:  # noqa: BLE001 - a task's top: callers get it, as a typed error
            self._failed(error)

    async def _open(self, stack: contextlib.AsyncExitStack) -> Session:
        limit = self._config.connect_timeout
        try:
            async with asyncio.timeout(limit):
                return await stack.enter_async_context(self._source.open(self._credential, self._on_change))
        except TimeoutError:
            raise ConnectionFailedError(
                f"{self.name!r} was not ready within {limit:g} s",
                hint=f"raise sources.{self.name}.connect_timeout if it is only slow to start",
                sent=False,
            ) from None

    def begin(self, use: _Use) -> None:
        """Notes a caller who has the session in hand."""
        self._uses.add(use)

    def end(self, use: _Use) -> None:
        """Notes that a caller is done with the session."""
        self._uses.discard(use)
        if not self._uses:
            self._unused.set()

    async def _interrupt_uses(self) -> None:
        """Ends the calls that still run, while the session can still tell its source."""
        for use in self._uses:
            use.interrupt()
        while self._uses:
            self._unused.clear()
            await self._unused.wait()

    async def _until_stopped_or_lost(self, session: Session) -> None:
        lost = asyncio.create_task(session.wait_closed())
        stopped = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({lost, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if lost.done():
                self.lost_because = lost.result()
            else:
                await self._interrupt_uses()
        finally:
            lost.cancel()
            stopped.cancel()

    def _failed(self, error: BaseException) -> None:
        self.lost_because = self.lost_because or str(error) or type(error).__name__
        if not self._ready.done():
            self._ready.set_exception(as_connection_error(error, self.name))
            # Callers may all have given up; an exception nobody fetches would be logged as a mistake.
            self._ready.exception()


class _Use:
    """One caller's use of a connection. A class, because a generator costs every call more."""

    def __init__(self, connection: Connection, way: trail.Trail) -> None:
        self._connection = connection
        self._way = way
        self._way_before: trail.Trail | None = None
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._interrupted = False

    async def __aenter__(self) -> Session:
        self._connection.acquire()
        try:
            session = await self._connection.session()
        except BaseException as error:
            self._connection.release()
            if isinstance(error, SpindleError):
                raise error.about(source=self._connection.name) from None
            raise
        self._task = asyncio.current_task()
        self._cancelling = self._task.cancelling() if self._task is not None else 0
        self._connection.begin(self)
        self._way_before = trail.follow(self._way)
        return session

    def interrupt(self) -> None:
        """End what the caller does with the session, which is about to be closed."""
        assert self._task is not None
        self._interrupted = True
        self._task.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        trail.follow(self._way_before)
        self._connection.end(self)
        if isinstance(error, ConnectionFailedError) and self._tells_of_its_end(error):
            # It no longer takes requests; whoever tries again needs another one at once.
            self._connection.retire()
        self._connection.release()
        if self._interrupted and self._task is not None:
            # As asyncio.timeout does: only who was cancelled by nobody else goes on, with our error.
            only_by_us = self._task.uncancel() <= self._cancelling
            if only_by_us and kind is asyncio.CancelledError:
                name = self._connection.name
                raise ConnectionFailedError(f"{name!r} was closed before it answered") from None

    def _tells_of_its_end(self, error: ConnectionFailedError) -> bool:
        return not error.sent and error.source in (None, self._connection.name)


class Connections:
    """All sessions of an app."""

    def __init__(self, on_change: Callable[[str], None], workspace: str) -> None:
        self._on_change = on_change
        self._workspace = workspace
        self._open: dict[tuple[str, str], Connection] = {}
        self._shared: dict[str, Connection] = {}
        """By source, the session that shows every caller's own credential."""
        self._alive: set[Connection] = set()
        """Also those that no longer take calls but are not over yet."""
        self._closed = False

    def session(
        self,
        name: str,
        source: Source[Any],
        config: SourceConfig,
        credential: Credential,
        *,
        own: bool = False,
    ) -> AbstractAsyncContextManager[Session]:
        """Returns the session of this source for this credential, opened if need be. `own`: for the workspace
        itself, and never one that was opened with another credential, even where it could serve calls."""
        way = (*trail.inherited(), self._workspace) if own else trail.onward(self._workspace)
        if len(way) > trail.MAX_HOPS:
            raise LoopError(
                f"{name!r} is more than {trail.MAX_HOPS} workspaces away",
                path=(name,),
                hint="do workspaces serve each other in a circle?",
            )
        return _Use(self._connection(name, source, config, credential, own=own), way)

    def _connection(
        self, name: str, source: Source[Any], config: SourceConfig, credential: Credential, *, own: bool
    ) -> Connection:
        if self._closed:
            raise ConnectionFailedError("this Spindle was closed", hint="open it again", sent=False)
        key = (name, credential.key)
        connection = self._open.get(key)
        if connection is not None and connection.usable:
            return connection
        shared = self._shared.get(name)
        if shared is not None and shared.usable and not own:
            return shared
        self._make_room(name, config)
        connection = Connection(
            name, source, config, credential, lambda: self._on_change(name), self._became_ready,
            self._workspace,
        )  # fmt: skip
        self._open[key] = connection
        self._alive.add(connection)
        connection.task.add_done_callback(lambda _task: self._ended(key, connection))
        return connection

    def _became_ready(self, connection: Connection, session: Session) -> None:
        if session.per_call_credentials:
            self._shared[connection.name] = connection

    def _ended(self, key: tuple[str, str], connection: Connection) -> None:
        self._alive.discard(connection)
        # Credentials come and go; what is over must not be kept for each of them.
        if self._open.get(key) is connection:
            del self._open[key]
        if self._shared.get(connection.name) is connection:
            del self._shared[connection.name]

    def _make_room(self, name: str, config: SourceConfig) -> None:
        mine = [item for (source, _), item in self._open.items() if source == name and item.usable]
        if len(mine) < config.max_sessions:
            return
        idle = [item for item in mine if item.users == 0]
        if not idle:
            raise ConnectionFailedError(
                f"all {config.max_sessions} sessions of {name!r} are in use",
                hint=f"raise sources.{name}.max_sessions",
                sent=False,
            )
        min(idle, key=lambda item: item.last_used).stop()

    def retire_source(self, name: str) -> None:
        """Gives new calls new sessions. Calls that are running keep theirs."""
        for connection in [item for item in self._alive if item.name == name]:
            connection.retire()
            if connection.users == 0:
                connection.stop()
                if connection.opening:
                    connection.task.cancel()

    async def close_source(self, name: str) -> None:
        """Closes all sessions of a source, and ends the calls that use them."""
        await self._stop([connection for connection in self._alive if connection.name == name])

    async def close(self) -> None:
        """Closes every session and ends the calls that use them. Nothing is left running."""
        self._closed = True
        await self._stop(list(self._alive))

    async def _stop(self, connections: list[Connection]) -> None:
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
