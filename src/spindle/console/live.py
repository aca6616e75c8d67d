"""Live updates: pages are told what has changed, and ask for it again with their own rights.

A page is made with marks of all that it may show. Its stream, which begins a moment later, is told first of
what has other marks by then: nothing that happens between the two is missed.

All pages share one look at the store every second, which also sees what other processes did. While no page
is open, nothing is looked at.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any, Final

from spindle.errors import SpindleError
from spindle.listening.response import Response

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from spindle.app import Spindle

logger = logging.getLogger("spindle")

INTERVAL: Final = 1.0
HEARTBEAT: Final = 15.0
MAX_PAGES: Final = 2000
CROWD: Final = 20
"""Open pages from which on they share what they ask for again."""
UNHURRIED: Final = 100
"""Open pages that are told every `INTERVAL`; more are told less often, as each asks for its part then."""
_LONGEST_MARKS: Final = 1000
_LOOKED_AT: Final = 50
"""Runs of which a change is seen: the newest."""


class Watcher:
    """One page that waits for news."""

    def __init__(self, marks: Mapping[str, str] | None = None) -> None:
        """`marks`: those that the page was made with."""
        self._topics: set[str] = set()
        self._news = asyncio.Event()
        self._marks: Mapping[str, str] = marks or {}
        self.closed = False

    def compare(self, known: Mapping[str, str]) -> None:
        """Tells, once, of all that is not as it was when the page was made. Nothing, if it is not known yet
        how things are."""
        if known:
            others = {topic for topic, mark in known.items() if self._marks.get(topic, mark) != mark}
            self._marks = {}
            if others:
                self.tell(others)

    def tell(self, topics: set[str]) -> None:
        """Says that these have changed. What a slow page has not taken yet is told once."""
        self._topics |= topics
        self._news.set()

    def close(self) -> None:
        """Has the page's stream end."""
        self.closed = True
        self._news.set()

    async def taken(self, timeout: float) -> set[str]:
        """Waits for news and returns them; nothing after `timeout` seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._news.wait()
        self._news.clear()
        taken, self._topics = self._topics, set()
        return taken


class LiveUpdates:
    """Looks at the store for all open pages."""

    def __init__(self, app: Spindle, is_stopping: Callable[[], bool] = lambda: False) -> None:
        """`is_stopping`: True once the server was told to stop; streams would not end by themselves."""
        self._app = app
        self._is_stopping = is_stopping
        self._watchers: set[Watcher] = set()
        self._looking: asyncio.Task[None] | None = None
        self._closed = False
        self._known: dict[str, str] = {}
        """By topic, its mark at the last look, while there is somebody to look for."""
        self.changes = 0
        """Counts the times that pages were told of something: what was made before may be out of date."""

    @property
    def pages(self) -> int:
        """The number of pages that are open."""
        return len(self._watchers)

    @contextlib.contextmanager
    def watching(self, since: str = "") -> Generator[Watcher | None]:
        """A page's watcher, or None if there are too many, for as long as the page is open. `since`: the
        marks that the page was made with."""
        if len(self._watchers) >= MAX_PAGES or self._closed:
            yield None
            return
        watcher = Watcher(_read_marks(since))
        self._watchers.add(watcher)
        watcher.compare(self._known if self._is_looking else {})
        if not self._is_looking:
            self._looking = asyncio.create_task(self._look(), name="looking for news of the console")
        try:
            yield watcher
        finally:
            self._watchers.discard(watcher)

    @property
    def _is_looking(self) -> bool:
        return self._looking is not None and not self._looking.done()

    async def marks(self) -> str:
        """Returns marks of all that a page may show which is made after this. While pages are open they are
        those of the last look, and cost nothing."""
        found = self._known if self._is_looking and self._known else await self._marks()
        return _written_marks(found)

    @property
    def known(self) -> str:
        """The marks of the last look."""
        return _written_marks(self._known)

    def _close(self) -> None:
        self._closed = True
        for watcher in self._watchers:
            watcher.close()

    async def _look(self) -> None:
        known = self._known = await self._marks()
        for watcher in self._watchers:
            watcher.compare(known)
        while self._watchers:
            for _ in range(max(len(self._watchers) // UNHURRIED, 1)):
                await asyncio.sleep(INTERVAL)
                if self._is_stopping():
                    self._close()
                    return
            now = await self._marks()
            changed = {topic for topic, mark in now.items() if known.get(topic) != mark}
            if changed:
                self.changes += 1
                for watcher in self._watchers:
                    watcher.tell(changed)
            known |= now

    async def _marks(self) -> dict[str, str]:
        """By topic, something that differs after a change. What cannot be read now is left out."""
        store, found = self._app.store, dict[str, str]()
        looks: dict[str, Callable[[], Awaitable[Any]]] = {
            "tools": store.catalog_version,
            "sources": self._sources,
            "calls": self._newest_call,
            "runs": self._newest_runs,
            "pauses": self._open_pauses,
            "access": store.access_version,
            "logs": self._logs,
        }
        for topic, look in looks.items():
            try:
                found[topic] = hashlib.blake2s(repr(await look()).encode(), digest_size=4).hexdigest()
            except SpindleError as error:
                logger.debug("the console could not look at %s: %s", topic, error)
        return found

    async def _sources(self) -> tuple[Any, dict[str, str], dict[str, int]]:
        """The sources as they were read, and the state of the sessions that this process has with them."""
        connections = self._app.catalog.connections
        open_now = {name: len(connections.sessions(name)) for name in self._app.catalog.sources.names}
        return await self._app.store.sources(), dict(connections.lost), open_now

    async def _newest_call(self) -> str | None:
        calls = await self._app.store.calls(limit=1)
        return calls[0].key if calls else None

    async def _logs(self) -> dict[str, list[str]]:
        """The logs of the programs that this process has started: only their ends are kept."""
        connections = self._app.catalog.connections
        found: dict[str, list[str]] = {}
        for name in self._app.catalog.sources.names:
            logs = [session.log() for session in connections.sessions(name) if session.log is not None]
            if logs:
                found[name] = logs
        return found

    async def _newest_runs(self) -> tuple[int, list[tuple[str, str, float]]]:
        runs = await self._app.store.runs(limit=_LOOKED_AT)
        steps = await self._app.store.newest_event()
        return steps, [(run.id, run.status, run.updated_at) for run in runs]

    async def _open_pauses(self) -> list[str]:
        return [pause.token for pause in await self._app.pauses()]


class LiveStream(Response):
    """Tells one page what has changed, until it or its session ends."""

    def __init__(
        self, live: LiveUpdates, is_signed_in: Callable[[], Awaitable[bool]], since: str = ""
    ) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(b"", 200, headers, "text/event-stream; charset=utf-8")
        self._live = live
        self._is_signed_in = is_signed_in
        self._since = since

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._live.watching(self._since) as watcher:
            if watcher is None:
                busy = Response("too many pages are open\n", 503, {"Retry-After": "30"}, "text/plain")
                await busy(scope, receive, send)
                return
            left = asyncio.create_task(_left(receive), name="a page of the console")
            left.add_done_callback(lambda _: watcher.close())
            try:
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                await _send(send, b"retry: 2000\n\n")
                while not watcher.closed:
                    topics = await watcher.taken(HEARTBEAT)
                    if not topics and not watcher.closed and not await self._is_signed_in():
                        await _send(send, b"event: ended\ndata: signed out\n\n")
                        break
                    named = " ".join(sorted(topics))
                    news = f"event: changed\nid: {self._live.known}\ndata: {named}\n\n" if named else ":\n\n"
                    await _send(send, news.encode())
                await _send(send, b"", more=False)
            finally:
                left.cancel()


def _written_marks(marks: Mapping[str, str]) -> str:
    return "-".join(f"{topic}.{mark}" for topic, mark in marks.items())


def _read_marks(text: str) -> dict[str, str]:
    """Marks as a page shows them; whatever else somebody sends is as good as none."""
    parts = (part.partition(".") for part in text[:_LONGEST_MARKS].split("-"))
    return {topic: mark for topic, _, mark in parts if mark}


async def _send(send: Send, data: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": more})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
