"""Calls that wait for messages, and which message is whose."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from spindle.domain.bounded import BoundedMap
from spindle.errors import SpindleError
from spindle.sources.message_paths import MISSING, at

# Messages that came before the reply which tells whose they are, and ids of subscriptions that have ended.
KEPT = 256


@dataclass(slots=True)
class WaitingCall:
    """A call that waits for messages: those of its number, or those that it recognises."""

    recognises: Callable[[Any], bool] | None = None
    incoming: asyncio.Queue[Any] = field(default_factory=asyncio.Queue[Any])
    """Messages, or the error that ends the wait."""
    size: int = 0
    outstanding: bool = False
    """True if more messages may come for it, even after the call has ended."""
    id_from: str | None = None
    """The path in its first reply to the id of its subscription."""
    id_field: str = ""
    """The path to that id in the messages that follow."""
    subscription: Any = MISSING

    async def next(self) -> Any:
        message = await self.incoming.get()
        if isinstance(message, SpindleError):
            raise message
        return message

    def subscribe(self, id_from: str, id_field: str) -> None:
        """Registers a subscription whose messages are recognised by an id in its first reply."""
        self.id_from, self.id_field = id_from, id_field
        self.recognises = self._is_mine

    @property
    def is_unnamed(self) -> bool:
        return self.id_from is not None and self.subscription is MISSING

    def name(self, reply: Any) -> None:
        if self.is_unnamed:
            assert self.id_from is not None
            self.subscription = at(reply, self.id_from)

    def _is_mine(self, message: Any) -> bool:
        found = at(message, self.id_field)
        return found is not MISSING and _same(found, self.subscription)


class Desk:
    """Sorts what comes in. `path` is where replies carry the number of their request; None: calls take
    turns."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._waiting: dict[str, WaitingCall] = {}
        self._early: deque[tuple[Any, int]] = deque(maxlen=KEPT)
        self._ended: deque[tuple[str, Any]] = deque(maxlen=KEPT)
        self.unawaited: BoundedMap[str, None] = BoundedMap()
        """Numbers of requests whose replies nobody waits for."""
        self.issued = 0
        self.late = 0
        self.unmatched = 0

    @property
    def in_turn(self) -> WaitingCall | None:
        return self._waiting.get("")

    def everybody(self) -> Iterable[WaitingCall]:
        return self._waiting.values()

    def enter(self, key: str, waiting: WaitingCall) -> None:
        self._waiting[key] = waiting

    def leave(self, key: str) -> None:
        waiting = self._waiting.pop(key)
        self.unmatched += waiting.incoming.qsize()
        if waiting.subscription is not MISSING:
            self._ended.append((waiting.id_field, waiting.subscription))
        self._drop_early()

    def sort(self, message: Any, size: int) -> Iterator[tuple[WaitingCall, Any, int]]:
        """The call that the message belongs to; and earlier messages, if this one shows whose they were."""
        waiting = self._owner(message, size)
        if waiting is None:
            return
        was_unnamed = waiting.is_unnamed
        waiting.name(message)
        yield waiting, message, size
        if was_unnamed and not waiting.is_unnamed and waiting.recognises is not None:
            mine = [item for item in self._early if waiting.recognises(item[0])]
            for item in mine:
                self._early.remove(item)
                yield waiting, *item
            self._drop_early()

    def _owner(self, message: Any, size: int) -> WaitingCall | None:
        if self._path is None:
            self.unmatched += self.in_turn is None
            return self.in_turn
        number = at(message, self._path)
        waiting = None if number is MISSING else self._waiting.get(str(number))
        if waiting is not None:
            return waiting
        for candidate in self._waiting.values():
            if candidate.recognises is not None and candidate.recognises(message):
                return candidate
        self._nobodys(message, size, str(number))
        return None

    def _nobodys(self, message: Any, size: int, number: str) -> None:
        if number in self.unawaited:
            del self.unawaited[number]
        elif self._was_somebodys(message, number):
            self.late += 1
        elif any(waiting.is_unnamed for waiting in self._waiting.values()):
            self._early.append((message, size))
        else:
            self.unmatched += 1

    def _was_somebodys(self, message: Any, number: str) -> bool:
        if number.isdecimal() and 0 < int(number) <= self.issued:
            return True
        return any(_same(at(message, path), ended) for path, ended in self._ended)

    def _drop_early(self) -> None:
        """Drops early messages once every subscription has its id: the rest belongs to none."""
        if self._early and not any(waiting.is_unnamed for waiting in self._waiting.values()):
            self.unmatched += len(self._early)
            self._early.clear()


def _same(one: Any, other: Any) -> bool:
    # True is no 1, though Python has it so.
    return type(one) is type(other) and one == other
