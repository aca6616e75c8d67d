"""Sessions: one for each (source, credential), and where a server keeps state for who uses it, for each
holder. Where a session shows every caller's own credential, one serves them all.

Opening is single-flight, parallel calls share a session, a lost one is opened again by the next call, and an
idle one closes. A source has at most `max_sessions`: one that nobody uses makes room, and where all are in
use calls wait in line.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any

from spindle.catalog.connection import Connection, stop_all
from spindle.domain import trail
from spindle.domain.bounded import BoundedMap
from spindle.errors import BusyError, ConnectionFailedError, LoopError, SpindleError
from spindle.ports.source import RelaySession

if TYPE_CHECKING:
    from types import TracebackType

    from spindle.domain.identity import Credential
    from spindle.domain.source import SourceConfig
    from spindle.ports.source import ListRoots, Session, Source

Key = tuple[str, str, str]
"""The name of a source, the key of a credential, and the holder of a session."""

MAX_SUPERSEDED = 10_000


class SessionUse:
    """One caller's use of a session. A class, because a generator costs every call more."""

    __slots__ = (
        "_cancelling", "_connection", "_connections", "_interrupted", "_seconds", "_way", "_way_before",
        "alone", "config", "credential", "key", "name", "own", "source", "task", "waited",
    )  # fmt: skip

    def __init__(
        self,
        connections: Connections,
        name: str,
        source: Source[Any],
        config: SourceConfig,
        credential: Credential,
        way: trail.Trail,
        seconds: float | None,
        holder: str,
        *,
        own: bool,
        alone: bool,
    ) -> None:
        self._connections = connections
        self.name = name
        self.source = source
        self.config = config
        self.credential = credential
        self.key = name, credential.key, holder
        self.own = own
        self.alone = alone
        self._way = way
        self._seconds = seconds
        self._interrupted = False
        self.waited = 0.0
        """Seconds that went by until there was room for the session."""

    async def __aenter__(self) -> Session:
        return self.at_once() or await self.opened()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave(error)

    # The same in its parts, since most calls find a session that is open.

    def at_once(self) -> Session | None:
        """Takes the session in hand if it is open; None if it has to be `opened`."""
        connection = self._connections.usable(self)
        if connection is None or connection.ready is None:
            return None
        connection.users += 1
        return self._in_hand(connection, connection.ready)

    async def opened(self) -> Session:
        """Takes the session in hand once it is open."""
        connection = await self._connections.everybodys(self) or self._connections.at_once(self)
        if connection is None:
            began = time.monotonic()
            connection = await self._connections.in_line(self, self._seconds)
            self.waited = time.monotonic() - began
        connection.users += 1
        try:
            session = await connection.session()
        except BaseException as error:
            connection.release()
            self._connections.tell_line(connection.name)
            if isinstance(error, SpindleError):
                raise error.about(source=connection.name) from None
            raise
        return self._in_hand(connection, session)

    def _in_hand(self, connection: Connection, session: Session) -> Session:
        self._connection = connection
        task = asyncio.current_task(connection.task.get_loop())
        assert task is not None
        self.task = task
        """Whoever uses the session."""
        self._cancelling = task.cancelling()
        connection.uses.add(self)
        if self.alone:
            connection.is_reserved = True
        self._way_before = trail.follow(self._way)
        return session

    def interrupt(self) -> None:
        """End what the caller does with the session, which is about to be closed."""
        self._interrupted = True
        self.task.cancel()

    def leave(self, error: BaseException | None) -> None:
        """Lets go of the session, after this error. Raises another in its place if the session was closed."""
        trail.follow(self._way_before)
        self._connection.end(self)
        if self.alone:
            self._connection.is_reserved = False
        if isinstance(error, ConnectionFailedError) and self._tells_of_its_end(error):
            # It no longer takes requests; whoever tries again needs another one at once.
            self._connection.retire()
        self._connection.release()
        if self._connections.lines:
            self._connections.tell_line(self._connection.name)
        if self._interrupted:
            # As asyncio.timeout does: only who was cancelled by nobody else goes on, with our error.
            only_by_us = self.task.uncancel() <= self._cancelling
            if only_by_us and isinstance(error, asyncio.CancelledError):
                name = self._connection.name
                raise ConnectionFailedError(f"{name!r} was closed before it answered") from None

    def _tells_of_its_end(self, error: ConnectionFailedError) -> bool:
        return not error.sent and error.source in (None, self._connection.name)


class Connections:
    """All sessions of an app."""

    def __init__(
        self, on_change: Callable[[str], None], workspace: str, before_open: Callable[[], None] = lambda: None
    ) -> None:
        self._on_change = on_change
        self._workspace = workspace
        self._way = trail.own_trail(workspace)
        self._before_open = before_open
        """Raises an error where no session may be opened now."""
        self._open: dict[Key, Connection] = {}
        self._further: dict[Key, list[Connection]] = {}
        """Sessions of the same key, for calls that run alone."""
        self._shared: dict[str, Connection] = {}
        """By source, the session that shows every caller's own credential."""
        self._alive: set[Connection] = set()
        """Also those that no longer take calls but are not over yet."""
        self.lines: dict[str, deque[asyncio.Event]] = {}
        """By source, those who wait for room, the first first. Each is told when there is news."""
        self._superseded: BoundedMap[tuple[str, str], None] = BoundedMap(MAX_SUPERSEDED)
        """The credentials that others took the place of."""
        self.lost: BoundedMap[str, str] = BoundedMap(MAX_SUPERSEDED)
        """By source, why its last session broke off, until another one is open."""
        self._closed = False

    def session(
        self,
        name: str,
        source: Source[Any],
        config: SourceConfig,
        credential: Credential,
        holder: str = "",
        *,
        own: bool = False,
        alone: bool = False,
        seconds: float | None = None,
    ) -> SessionUse:
        """Returns the session of this source for this credential and holder, opened if need be. `own`: for
        the workspace itself, and never one that was opened with another credential, even where it could serve
        calls. `alone`: one that nobody else uses meanwhile, if there is room for that.
        Entering raises BusyError if there is no room for it within `seconds`, by default the source's
        `timeout`."""
        way = self._way if own else trail.onward(self._way)
        if len(way) > trail.MAX_HOPS:
            raise LoopError(
                f"{name!r} is more than {trail.MAX_HOPS} workspaces away",
                path=(name,),
                hint="do workspaces serve each other in a circle?",
            )
        return SessionUse(self, name, source, config, credential, way, seconds, holder, own=own, alone=alone)

    async def everybodys(self, wanted: SessionUse) -> Connection | None:
        """The session that another holder opens at the moment, if it turns out that it can serve all."""
        if not wanted.key[2] or wanted.source.is_stateful is not None:
            return None
        same = (item for key, item in self._open.items() if key[:2] == wanted.key[:2] and item.usable)
        first = next(same, None)
        if first is None:
            return None
        with contextlib.suppress(SpindleError):
            if (await first.session()).is_stateless and first.usable:
                return first
        return None

    def at_once(self, wanted: SessionUse) -> Connection | None:
        """The connection, opened if there is room for it; None if not, or if others wait for room."""
        found = self.usable(wanted)
        if found is None and wanted.name not in self.lines and self._make_room(wanted):
            found = self._make(wanted)
        if found is None:
            found = self._open.get(wanted.key)
            if found is not None and not found.usable:
                return None
            wanted.alone = False  # there is no room for that
        return found

    async def in_line(self, wanted: SessionUse, seconds: float | None) -> Connection:
        """The same, once there is room. Raises BusyError after `seconds`."""
        seconds = wanted.config.timeout if seconds is None else seconds
        line = self.lines.setdefault(wanted.name, deque())
        news = asyncio.Event()
        line.append(news)
        try:
            async with asyncio.timeout(seconds):
                while True:
                    await news.wait()
                    news.clear()
                    # It may be there by now, for another call of the same user, or for everybody.
                    found = self.usable(wanted)
                    if found is None and line[0] is news and self._make_room(wanted):
                        found = self._make(wanted)
                    if found is not None:
                        return found
        except TimeoutError:
            raise BusyError(
                f"all {wanted.config.max_sessions} sessions of {wanted.name!r} are in use: none was free"
                f" within {seconds:.3g} s, and {len(line)} calls wait",
                hint=f"try again later, or raise sources.{wanted.name}.max_sessions",
                source=wanted.name,
                retry_after=1.0,
                sent=False,
            ) from None
        finally:
            line.remove(news)
            if not line:
                del self.lines[wanted.name]
            self.tell_line(wanted.name)

    def usable(self, wanted: SessionUse) -> Connection | None:
        """The connection that serves it, if there is one that takes calls."""
        if self._closed:
            raise ConnectionFailedError("this Spindle was closed", hint="open it again", sent=False)
        connection = self._open.get(wanted.key)
        if connection is not None:
            if not wanted.alone and connection.is_free():
                return connection
            if connection.usable:
                return self._beside(wanted, connection)
        shared = self._shared.get(wanted.name)
        return shared if shared is not None and shared.usable and not wanted.own else None

    def _beside(self, wanted: SessionUse, first: Connection) -> Connection | None:
        """One of the sessions of the same key that is free for it: nobody is to be alone on it, or nobody
        uses it."""
        for item in (first, *self._further.get(wanted.key, ())):
            if item.usable and item.users == 0 if wanted.alone else item.is_free():
                return item
        return None

    def _make_room(self, wanted: SessionUse) -> bool:
        """False if all sessions of the source are in use."""
        name = wanted.name
        mine = [item for item in self._alive if item.name == name and item.usable]
        if len(mine) < wanted.config.max_sessions:
            return True
        idle = [item for item in mine if item.users == 0]
        if idle:
            min(idle, key=lambda item: item.last_used).stop()
        return bool(idle)

    def _make(self, wanted: SessionUse) -> Connection:
        name, key = wanted.name, wanted.key
        connection = Connection(
            name, wanted.source, wanted.config, wanted.credential, lambda: self._on_change(name),
            self._became_ready, partial(self.tell_line, name), self._workspace, self._before_open,
        )  # fmt: skip
        connection.key = key
        if key[:2] in self._superseded:
            # A call that got its credential before the newer one came.
            connection.serve_once()
        first = self._open.get(key)
        if first is not None and first.usable:
            self._further.setdefault(key, []).append(connection)
        else:
            self._open[key] = connection
        self._alive.add(connection)
        connection.task.add_done_callback(lambda _task: self._ended(connection))
        return connection

    def tell_line(self, name: str) -> None:
        """Has those look again who wait for room."""
        for news in self.lines.get(name, ()):
            news.set()

    def _became_ready(self, connection: Connection, session: Session) -> None:
        self.lost.pop(connection.name, None)
        if session.per_call_credentials:
            self._shared[connection.name] = connection
            self.tell_line(connection.name)
        elif session.is_stateless and connection.key[2]:
            # It was opened for one holder before it was known that it can serve all.
            everybodys = (*connection.key[:2], "")
            found = self._open.get(everybodys)
            if found is None or not found.usable:
                self._forget(connection)
                connection.key = everybodys
                self._open[everybodys] = connection

    def _forget(self, connection: Connection) -> None:
        key, further = connection.key, self._further.get(connection.key, [])
        if connection in further:
            further.remove(connection)
        if self._open.get(key) is connection:
            del self._open[key]
            if further:
                self._open[key] = further.pop(0)
        if not further:
            self._further.pop(key, None)

    def _ended(self, connection: Connection) -> None:
        self._alive.discard(connection)
        if connection.ready is not None and connection.lost_because is not None:
            self.lost[connection.name] = connection.lost_because
        # Credentials and holders come and go; what is over must not be kept for each of them.
        self._forget(connection)
        if self._shared.get(connection.name) is connection:
            del self._shared[connection.name]
        self.tell_line(connection.name)

    def supersede(self, name: str, before: str | None, now: str) -> None:
        """Another credential took the place of one, both given by their keys: the session of the one before
        ends with its last call."""
        self._superseded.pop((name, now), None)
        if before is None:
            return
        self._superseded[name, before] = None
        for connection in [item for item in self._alive if item.key[:2] == (name, before)]:
            if connection is not self._shared.get(name):
                connection.retire()

    def retire_holder(self, holder: str) -> None:
        """Ends the sessions of a holder that is gone, each with the last of its calls that run."""
        for connection in [item for item in self._alive if item.key[2] == holder]:
            connection.retire()

    async def tell_roots_changed(self, holders: Collection[str], list_roots: ListRoots) -> None:
        """Tells the servers that keep a session for one of these holders that its roots are others."""
        for connection in [item for item in self._alive if item.key[2] in holders and item.usable]:
            if isinstance(connection.ready, RelaySession):
                with contextlib.suppress(SpindleError):  # a server that is gone asks when it is back
                    await connection.ready.roots_changed(list_roots)

    def retire_source(self, name: str) -> None:
        """Gives new calls new sessions. Calls that are running keep theirs."""
        for connection in [item for item in self._alive if item.name == name]:
            connection.retire()

    async def close_source(self, name: str) -> None:
        """Closes all sessions of a source, and ends the calls that use them."""
        self.lost.pop(name, None)
        await stop_all([connection for connection in self._alive if connection.name == name])

    def sessions(self, name: str) -> list[Session]:
        """Returns the sessions of a source that are open."""
        return [item.ready for item in self._alive if item.name == name and item.ready and item.usable]

    async def close(self) -> None:
        """Closes every session and ends the calls that use them. Nothing is left running."""
        self._closed = True
        for name in list(self.lines):
            self.tell_line(name)
        await stop_all(list(self._alive))
