"""Answers of the handshake era that are streams, kept for clients whose connection is lost before the end.

An answer that is one JSON body is none of these: it costs nothing more. The events of a stream are kept in
memory by the process that does the work, and go into the store, sealed, only where memory might not do: the
answer, when nobody is there to take it; and the request itself, while it waits for an answer to a question,
so that another process can make it again with what was answered so far if this one is gone, or go on with its
run where that waits in the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from spindle.domain.identity import Secret
from spindle.domain.json_schema import JsonObject, from_json, to_json
from spindle.errors import StoreError
from spindle.mcp_protocol.errors import McpError
from spindle.mcp_protocol.names import INTERNAL_ERROR
from spindle.mcp_server.event_ids import FIRST_VERSION_WITH_PRIMERS, EventId, event, primer
from spindle.mcp_server.suspended_state import Answered, mark_of_question

if TYPE_CHECKING:
    from spindle.auth.details import DetailSealer
    from spindle.mcp_server.channel import Send
    from spindle.mcp_server.connection import ClientConnection
    from spindle.mcp_server.questions import Questions
    from spindle.mcp_server.session_ids import SessionFacts
    from spindle.ports.store import Store

logger = logging.getLogger("spindle.serve")

KEPT_FOR: Final = 300.0
"""Seconds after its end for which an answer is kept."""
MAX_EVENTS, MAX_EVENT_BYTES = 1000, 1024 * 1024
"""Of one answer: the oldest of more go. Its end always stays."""
MAX_OVER, MAX_OVER_BYTES = 1000, 64 * 1024 * 1024
"""Answers that are over, of all clients: the oldest of more go."""
HANDED_OVER_FOR, MAX_HANDED_OVER = 30.0, 100
"""Answers that a process hands over when it stops: seconds since their end, and how many."""
MAX_ROW: Final = 1024 * 1024
"""Bytes of an answer, or of a request that asked, in the store. Larger ones end with their process."""


LOST: Final = (
    "the process that did this is gone, and its answer with it: whether it had an effect is not known"
)
"""The message to a client whose request cannot go on anywhere."""
NOWHERE: Final = ""
_goes_on: ContextVar[str | None] = ContextVar("where a request goes on", default=None)


@contextlib.contextmanager
def going_on_from(pause: str | None) -> Generator[None]:
    """A request that asks meanwhile waits by a run: another process goes on with that, at the pause of this
    token, and does not make the request again. `NOWHERE`: it can do neither. None: it makes it again."""
    before = _goes_on.set(pause)
    try:
        yield
    finally:
        _goes_on.reset(before)


def goes_on_nowhere() -> bool:
    """True if a request that asks now ends with this process."""
    return _goes_on.get() == NOWHERE


class ClientSession(Protocol):
    """A session, as far as its answers need to know it."""

    @property
    def facts(self) -> SessionFacts | None: ...
    @property
    def questions(self) -> Questions: ...
    @property
    def connection(self) -> ClientConnection: ...


class Moved(NamedTuple):
    """The place of an answer whose process is gone: another process, and the stream there."""

    process: str
    stream: str


class Waiting(NamedTuple):
    """A request that waits for an answer to a question, as it is in the store."""

    message: JsonObject
    answered: Answered
    question: str
    """The id of the question."""
    mark: str
    """Of the question."""
    pause: str | None = None
    """The token of the pause that the question is about, if the request waits by a run."""
    moved: Moved | None = None
    """The place of who has taken it over, and has not come as far as that question. It stays until then."""

    def entry(self) -> list[Any]:
        """As it is in the store."""
        return ["asked", *self[:-1], [*self.moved] if self.moved is not None else None]


Stored = Waiting | Moved | list[tuple[int, bytes]] | None
"""All that the store may have of an answer."""


class KeptAnswer:
    """The answer to one request."""

    def __init__(self, keeper: KeptAnswers, session: ClientSession, name: str, message: JsonObject) -> None:
        assert session.facts is not None
        self._keeper = keeper
        self._session = session
        self.key = session.facts.key, name
        self._message = message
        self._place = EventId(keeper.process, name, 0, message["id"])
        self._events: deque[tuple[int, bytes]] = deque()
        self._count = self.size = 0
        self._is_over = False
        self._news = asyncio.Event()
        self._reader: object | None = None
        self._asked: Secret | None = None
        """The question that it waits for, in the store."""
        self.given: Answered = []
        """Answers to questions that were asked in a process that is gone, and will be asked again."""
        self._answered: Answered = []
        self.taken: Secret | None = None
        """The request as it waits in the store, for as long as others may still take it over from us."""

    @property
    def place(self) -> Moved:
        return Moved(self._place.process, self._place.stream)

    @property
    def primer(self) -> bytes:
        """Says where the client can go on from; empty for clients that do not know such events."""
        version = self._session.connection.protocol_version
        return primer(self._place) if version >= FIRST_VERSION_WITH_PRIMERS else b""

    def add(self, message: JsonObject) -> bytes:
        """Keeps a message, and returns the event that it is."""
        self._count += 1
        made = event(message, self._place._replace(number=self._count))
        self._events.append((self._count, made))
        self.size += len(made)
        while len(self._events) > 1 and (len(self._events) > MAX_EVENTS or self.size > MAX_EVENT_BYTES):
            self.size -= len(self._events.popleft()[1])
        self._news.set()
        return made

    async def event(self, message: JsonObject) -> None:
        """Keeps a message for whoever reads."""
        self.add(message)

    async def finish(self, message: JsonObject, *, is_lost: bool) -> bytes:
        """Keeps the end of the answer, and returns the event that it is. `is_lost`: its client has gone."""
        # Where another process goes on, nobody comes for this answer.
        with contextlib.suppress(McpError, StoreError):
            await self._go_on()
        made = self.add(message)
        self._is_over = True
        self._keeper.over(self)
        if is_lost and self._reader is None:
            await self.store()
        elif self._asked is not None:
            await self._keeper.forget(self._asked)
        return made

    async def store(self) -> None:
        """Keeps the answer for all processes."""
        frames = [[number, data.decode()] for number, data in self._events]
        await self._keeper.save(self.key, ["over", frames])

    def give_up(self) -> None:
        """Ends what is read, without an end of the answer."""
        self._reader = None
        self._news.set()

    async def after(self, number: int) -> AsyncGenerator[bytes]:
        """The events after one, to the end. A later reader takes the place of an earlier one."""
        mine = self._reader = object()
        self._news.set()
        try:
            while self._reader is mine:
                self._news.clear()
                for at, data in list(self._events):
                    if at > number:
                        number = at
                        yield data
                if self._is_over and number >= self._count:
                    return
                if number >= self._count:
                    await self._news.wait()
        finally:
            if self._reader is mine:
                self._reader = None

    async def ask(self, method: str, params: Mapping[str, Any] | None, send: Send) -> JsonObject:
        """Asks the client. Another process can go on from here."""
        mark = mark_of_question(method, dict(params) if params is not None else None)
        known = next((item for item in self.given if item[0] == mark), None)
        if known is not None:
            self.given.remove(known)
            self._answered.append(known)
            if not self.given:
                await self._go_on()
            return known[1]
        questions = self._session.questions
        question = questions.new_id()
        waiting = Waiting(self._message, self._answered, question, mark, _goes_on.get())
        can_go_on = waiting.pause != NOWHERE
        self._asked = await self._keeper.save(self.key, waiting.entry()) if can_go_on else None
        await self._go_on()
        said = await questions.ask(method, params, send, question)
        if self._asked is not None and not await self._keeper.forget(self._asked):
            raise _elsewhere()
        self._asked = None
        self._answered.append((mark, said))
        return said

    async def _go_on(self) -> None:
        """From here on nobody makes the request again from where it waited before."""
        taken, self.taken = self.taken, None
        if taken is not None and not await self._keeper.move(taken, self.place):
            raise _elsewhere()


def _elsewhere() -> McpError:
    # This process stood still for so long that it counted as gone.
    return McpError(INTERNAL_ERROR, "another process goes on with this request")


class KeptAnswers:
    """The answers that this process keeps, and those in the store, of all clients."""

    def __init__(self, process: str, store: Store, sealer: DetailSealer, now: Callable[[], float]) -> None:
        self.process = process
        self._store = store
        self._sealer = sealer
        self._now = now
        self._names = itertools.count(1)
        self._running: dict[tuple[str, str], KeptAnswer] = {}
        self._over: dict[tuple[str, str], tuple[float, KeptAnswer]] = {}
        self._size = 0

    def __len__(self) -> int:
        return len(self._running) + len(self._over)

    def begin(self, session: ClientSession, message: JsonObject) -> KeptAnswer:
        made = KeptAnswer(self, session, str(next(self._names)), message)
        self._running[made.key] = made
        return made

    def dropped(self, kept: KeptAnswer) -> None:
        """The request of an answer has ended: where that has no end, nobody waits for it any longer."""
        if self._running.pop(kept.key, None) is not None:
            kept.give_up()

    def over(self, kept: KeptAnswer) -> None:
        """The answer is whole. It is kept for a while."""
        self._running.pop(kept.key, None)
        self._over[kept.key] = self._now(), kept
        self._size += kept.size
        for key, (at, item) in list(itertools.islice(self._over.items(), 10)):
            if len(self._over) <= MAX_OVER and self._size <= MAX_OVER_BYTES and at > self._now() - KEPT_FOR:
                break
            del self._over[key]
            self._size -= item.size

    def find(self, key: tuple[str, str]) -> KeptAnswer | None:
        """The answer of this session and name, if this process has it."""
        if key in self._running:
            return self._running[key]
        found = self._over.get(key)
        return found[1] if found is not None else None

    async def close(self) -> None:
        """Hands the newest answers over to other processes: their clients may not have got them, and nobody
        has noticed."""
        newest = [kept for at, kept in self._over.values() if at > self._now() - HANDED_OVER_FOR]
        for kept in newest[-MAX_HANDED_OVER:]:
            await kept.store()

    # --- in the store

    async def save(self, key: tuple[str, str], entry: list[Any]) -> Secret | None:
        """Returns what is stored; None for an entry that is too large, or a store that does not take it."""
        data = to_json(entry)
        if len(data) > MAX_ROW:
            return None
        saved = self._sealed(self._row(key, self.process), key[0], data)
        try:
            await self._store.save_secret(saved)
        except StoreError as error:
            logger.warning("an answer is kept in memory alone: %s", error.message)
            return None
        return saved

    async def forget(self, saved: Secret) -> bool:
        """Removes what is stored. False: another process has taken it over."""
        return await self._store.swap_secret(saved, None)

    async def stored(self, key: tuple[str, str], process: str) -> Stored:
        """The events of an answer of any process, a request that waits there, or where it has gone."""
        found = await self._store.secret("stream", self._row(key, process))
        return self._opened(found) if found is not None else None

    async def take(self, key: tuple[str, str], process: str, kept: KeptAnswer) -> bool:
        """Takes a request over that waits for a process that is gone; its answer is now this one. False:
        another process is faster."""
        found = await self._store.secret("stream", self._row(key, process))
        waiting = self._opened(found) if found is not None else None
        if found is None or not isinstance(waiting, Waiting):
            return False
        data = to_json(waiting._replace(moved=kept.place).entry())
        taken = self._sealed(found.key, found.source, data)
        if not await self._store.swap_secret(found, taken):
            return False
        kept.taken = taken
        return True

    async def move(self, taken: Secret, to: Moved) -> bool:
        """Leaves no more than where it has gone of a request that was taken over. False: another has it."""
        data = to_json(["moved", *to])
        return await self._store.swap_secret(taken, self._sealed(taken.key, taken.source, data))

    def _sealed(self, name: str, session: str, data: bytes) -> Secret:
        now, sealed = self._now(), self._sealer.seal(data, f"stream {name}")
        return Secret("stream", name, sealed, session, expires_at=now + KEPT_FOR, updated_at=now)

    def _opened(self, found: Secret) -> Stored:
        if (found.expires_at or 0) <= self._now():
            return None
        try:
            what, *rest = from_json(self._sealer.open(found.sealed, f"stream {found.key}"))
        except StoreError:
            return None  # of a key that is gone
        if what == "moved":
            return Moved(*rest)
        if what == "asked":
            filled: list[Any] = [*rest, None, None]  # an earlier version has stored less
            message, answered, question, mark, pause, moved = filled[:6]
            given = [(item[0], item[1]) for item in answered]
            return Waiting(message, given, question, mark, pause, Moved(*moved) if moved else None)
        return [(number, text.encode()) for number, text in rest[0]]

    async def forget_all(self, session: str) -> None:
        """Forgets what is stored of a session that has ended."""
        for item in await self._store.secrets("stream", source=session):
            await self._store.delete_secret("stream", item.key)

    def _row(self, key: tuple[str, str], process: str) -> str:
        return f"{key[0]} {process} {key[1]}"
