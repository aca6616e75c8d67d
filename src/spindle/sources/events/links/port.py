"""The port for links to event servers of any protocol."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from spindle.domain.event import Event
from spindle.domain.json_schema import JsonObject
from spindle.errors import ConnectionFailedError, SpindleError
from spindle.sources.events.cloudevents import Envelope

MAX_WAITING: Final = 1000
"""Events that may wait to be read. One more ends the subscription with an error."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """An event to be sent."""

    event: Event
    envelope: Envelope = "structured"
    bindings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The document's bindings of the channel and the operation for this protocol."""
    reply_to: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def address(self) -> str:
        return self.event.channel


@dataclass(frozen=True, slots=True)
class Incoming:
    """An event that arrived. `correlation` is the id of the request that it answers, if the protocol
    tells."""

    event: Event
    correlation: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    settle: Callable[[bool], Awaitable[None]] | None = None
    """Tells a queue if the event was taken (True) or must be delivered again."""


async def give_back(events: Iterable[Incoming]) -> None:
    """Tells their queue that these events were not taken. If the connection is lost, it knows by itself."""
    for event in events:
        if event.settle is not None:
            with contextlib.suppress(Exception):
                await event.settle(False)


class EventLink(ABC):
    """One connection, shared by parallel calls. Errors are SpindleErrors; if one means that the connection
    is lost, `broken` is true and the link is replaced."""

    broken: bool = False
    has_responses: ClassVar[bool] = False
    """True if the server's response to an event is its answer, which `exchange` returns."""

    async def connect(self) -> None:  # noqa: B027 - some connect when they are first used
        """Connects. Called before anything else."""

    @abstractmethod
    async def publish(self, message: Outgoing) -> JsonObject:
        """Sends the event and returns the server's acknowledgement."""

    async def exchange(self, message: Outgoing) -> Incoming:
        """Sends the event and returns the server's response, if `has_responses`."""
        raise NotImplementedError

    @abstractmethod
    def subscribe(
        self, address: str, bindings: Mapping[str, Any]
    ) -> AbstractAsyncContextManager[AsyncIterator[Incoming]]:
        """Subscribes; entered once the server has confirmed, so nothing sent later is missed."""

    async def close(self) -> None:  # noqa: B027 - not all have something to close
        """Disconnects and ends all tasks of the link."""


class Inbox:
    """The received events that are not read yet, or the error that ended the subscription."""

    def __init__(self) -> None:
        self._items: asyncio.Queue[Incoming | SpindleError] = asyncio.Queue()
        self._ended = False

    def put(self, item: Incoming) -> bool:
        """Adds an event; False if the inbox has ended."""
        if self._ended:
            return False
        if self._items.qsize() >= MAX_WAITING:
            self.end(ConnectionFailedError(f"events came faster than they were read: {MAX_WAITING} wait"))
            return False
        self._items.put_nowait(item)
        return True

    def end(self, error: SpindleError) -> None:
        """Ends the inbox with an error for its reader."""
        if not self._ended:
            self._ended = True
            self._items.put_nowait(error)

    def left(self) -> list[Incoming]:
        """Ends the inbox and returns the unread events."""
        self._ended = True
        found: list[Incoming] = []
        while not self._items.empty():
            item = self._items.get_nowait()
            if isinstance(item, Incoming):
                found.append(item)
        return found

    def __aiter__(self) -> Inbox:
        return self

    async def __anext__(self) -> Incoming:
        item = await self._items.get()
        if isinstance(item, SpindleError):
            raise item
        return item
