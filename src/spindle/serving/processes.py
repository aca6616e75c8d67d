"""The processes that serve one workspace together, and messages from one to another.

All of it goes through the store, which they share anyway: no process needs to know where another is. A
process that is alone looks for others now and then; nothing else is done, and no call ever waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import secrets
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Final

from spindle.domain.identity import Secret
from spindle.domain.json_schema import JsonObject, from_json, to_json
from spindle.errors import SpindleError

if TYPE_CHECKING:
    from spindle.auth.details import DetailSealer
    from spindle.ports.store import Store

logger = logging.getLogger("spindle.serve")

SIGN_EVERY: Final = 5.0
"""Seconds between two signs of life."""
GONE_AFTER: Final = 30.0
"""Seconds without a sign of life after which a process counts as gone."""
ALONE, TOGETHER, EXPECTING = 2.0, 0.25, 0.03
"""Seconds between two looks for messages: of one that is alone, of others, of one that expects any."""
KEPT_FOR: Final = 60.0
"""Seconds after which a message that nobody took is forgotten."""

Receive = Callable[[str, JsonObject], None]
"""Told of a message: the process that it comes from, and what it says."""


class Processes:
    """One process among those that serve a workspace."""

    def __init__(self, store: Store, sealer: DetailSealer, now: Callable[[], float]) -> None:
        self.id = secrets.token_hex(6)
        self._store = store
        self.sealer = sealer
        self._now = now
        self._count = itertools.count()
        self._receivers: dict[str, Receive] = {}
        self._expected = 0
        self._news = asyncio.Event()
        self._signed = self._looked = -GONE_AFTER
        self.others: frozenset[str] = frozenset()
        """Those that gave a sign of life lately."""

    def on(self, kind: str, receive: Receive) -> None:
        """Has messages of this kind received."""
        self._receivers[kind] = receive

    @contextlib.contextmanager
    def expecting(self) -> Generator[None]:
        """Looks for messages more often while this lasts."""
        self._expected += 1
        self._news.set()
        try:
            yield
        finally:
            self._expected -= 1

    async def send(self, to: str, kind: str, body: JsonObject) -> str:
        """Leaves a message for another process. Returns the name by which it can be taken back."""
        name = f"{to} {self.id} {next(self._count):012d}"
        sealed = self.sealer.seal(to_json([self.id, kind, body]), f"message {name}")
        now = self._now()
        await self._store.save_secret(
            Secret("message", name, sealed, to, expires_at=now + KEPT_FOR, updated_at=now)
        )
        return name

    async def take_back(self, name: str) -> bool:
        """Returns True if nobody had taken the message, and nobody will."""
        return await self._store.delete_secret("message", name)

    async def tell_others(self, kind: str, body: JsonObject) -> None:
        """Leaves a message for each other process. One that starts later looks into the store."""
        await self._find_others()
        for other in self.others:
            await self.send(other, kind, body)

    async def run(self) -> None:
        """Gives signs of life and receives messages, until cancelled."""
        try:
            while True:
                try:
                    await self.look()
                except SpindleError as error:
                    logger.warning("could not look for messages of other processes: %s", error.message)
                    await asyncio.sleep(ALONE)
                except Exception:
                    logger.exception("looking for messages of other processes failed")
                    await asyncio.sleep(ALONE)
                await self._pause()
        finally:
            await asyncio.shield(self._leave())

    async def _pause(self) -> None:
        seconds = TOGETHER if self.others else ALONE
        if self._expected:
            # Whoever comes while this one is alone is seen at its next look for others.
            seconds = EXPECTING if self.others else TOGETHER
        self._news.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), seconds)

    async def look(self) -> None:
        """Gives a sign of life if one is due, and receives the messages that are there."""
        clock = asyncio.get_running_loop().time()
        if clock - self._signed >= SIGN_EVERY:
            self._signed = clock
            now = self._now()
            await self._store.save_secret(
                Secret("process", self.id, b"", self.id, expires_at=now + GONE_AFTER, updated_at=now)
            )
            await self._forget()
        if clock - self._looked >= ALONE:
            self._looked = clock
            await self._find_others()
        for message in await self._store.secrets("message", source=self.id):
            if await self._store.delete_secret("message", message.key):
                self._receive(message)

    async def _find_others(self) -> None:
        found = await self._store.secrets("process")
        now = self._now()
        self.others = frozenset(
            item.key for item in found if item.key != self.id and (item.expires_at or 0) > now
        )

    async def _forget(self) -> None:
        """Deletes what is left of processes that are gone."""
        now = self._now()
        for item in await self._store.secrets("process"):
            if (item.expires_at or 0) <= now:
                await self._store.delete_secret("process", item.key)
                for message in await self._store.secrets("message", source=item.key):
                    await self._store.delete_secret("message", message.key)

    async def has_left(self, process: str) -> bool:
        """True if a process has ended in good order, or long ago. One that was killed counts as there for a
        while."""
        return await self._store.secret("process", process) is None

    async def left_for(self, process: str, kind: str) -> list[JsonObject]:
        """The messages of a kind that a process, which is gone, has not taken."""
        found = [self._read(item) for item in await self._store.secrets("message", source=process)]
        return [body for _, what, body in filter(None, found) if what == kind]

    def _receive(self, message: Secret) -> None:
        read = self._read(message)
        if read is not None:
            sender, kind, body = read
            receive = self._receivers.get(kind)
            if receive is not None:
                receive(sender, body)

    def _read(self, message: Secret) -> tuple[str, str, JsonObject] | None:
        if (message.expires_at or 0) <= self._now():
            return None
        try:
            sender, kind, body = from_json(self.sealer.open(message.sealed, f"message {message.key}"))
        except SpindleError as error:
            logger.warning("a message of another process cannot be read: %s", error.message)
            return None
        return sender, kind, body

    async def _leave(self) -> None:
        with contextlib.suppress(SpindleError):
            await self._store.delete_secret("process", self.id)
