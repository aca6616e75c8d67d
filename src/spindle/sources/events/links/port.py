"""The port of links to servers of events, whatever they speak."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from spindle.domain.event import Event
from spindle.domain.identity import Credential
from spindle.domain.json_schema import JsonObject
from spindle.errors import CallTimeoutError, ConnectionFailedError, SpindleError
from spindle.sources.events.cloudevents import Envelope
from spindle.sources.events.servers import Endpoint

if TYPE_CHECKING:
    from spindle.sources.events.links.receiver import Receiver

MAX_WAITING: Final = 1000
"""Events that may wait to be read. One more ends the subscription with an error."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """An event on its way out."""

    event: Event
    envelope: Envelope = "structured"
    bindings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the document says about the channel and the operation for this protocol."""
    reply_to: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def address(self) -> str:
        return self.event.channel


@dataclass(frozen=True, slots=True)
class Incoming:
    """An event that arrived. `correlation` is the id of what it answers, where the protocol says."""

    event: Event
    correlation: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    settle: Callable[[bool], Awaitable[None]] | None = None
    """Tells a queue whether the event was taken, or is to be given to somebody else."""


class EventLink(ABC):
    """One connection, shared by parallel calls. Errors are SpindleErrors; after one with which the
    connection is lost, `broken` is true and the link is replaced."""

    broken: bool = False
    has_responses: ClassVar[bool] = False
    """True where the server's response to an event is the answer to it, which `exchange` returns."""

    async def connect(self) -> None:  # noqa: B027 - some connect when they are first used
        """Connects, before anything else is asked of the link."""

    @abstractmethod
    async def publish(self, message: Outgoing) -> JsonObject:
        """Returns when the server has acknowledged the event, with what it said."""

    async def exchange(self, message: Outgoing) -> Incoming:
        """Sends the event and returns the response to it, where there are such."""
        raise NotImplementedError

    @abstractmethod
    def subscribe(
        self, address: str, bindings: Mapping[str, Any]
    ) -> AbstractAsyncContextManager[AsyncIterator[Incoming]]:
        """Entered when the server has confirmed the subscription: nothing sent later is missed."""

    async def close(self) -> None:  # noqa: B027 - not all have something to close
        """Disconnects. Nothing of the link runs on."""


@dataclass(frozen=True, slots=True)
class Target:
    """All that it takes to make a link."""

    source: str
    endpoint: Endpoint
    credential: Credential
    publish_timeout: float
    connect_timeout: float
    max_size: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    secret: str | None = field(default=None, repr=False)
    receiver: Receiver | None = None
    """Where webhooks come in."""
    public_only: bool = False

    @property
    def login(self) -> tuple[str, str] | None:
        """User and password, where the credential is such."""
        import base64
        import binascii

        for name, value in self.credential.headers:
            scheme, _, rest = value.partition(" ")
            if name.lower() == "authorization" and scheme.lower() == "basic":
                try:
                    user, _, password = base64.b64decode(rest, validate=True).decode().partition(":")
                except (binascii.Error, UnicodeDecodeError):
                    return None
                return user, password
        return None

    @property
    def token(self) -> str | None:
        for name, value in self.credential.headers:
            scheme, _, rest = value.partition(" ")
            if name.lower() == "authorization" and scheme.lower() == "bearer":
                return rest
        return None

    def said(self, error: BaseException | str) -> str:
        """What a library says about an error, without the password that its address may hold."""
        text, password = described(error), self.endpoint.parts.password
        return text.replace(password, "***") if password else text

    def unreachable(self, error: BaseException | str) -> SpindleError:
        return ConnectionFailedError(
            f"cannot reach {self.endpoint.shown}: {self.said(error)}",
            hint=f"check that it runs, and sources.{self.source}.servers.{self.endpoint.name}.url",
            sent=False,
        )

    def lost(self, error: BaseException | str, *, sent: bool = True) -> SpindleError:
        return ConnectionFailedError(
            f"lost {self.endpoint.shown} before it acknowledged: {self.said(error)}", sent=sent
        )

    def not_acknowledged(self, *, sent: bool = True) -> SpindleError:
        return CallTimeoutError(
            f"{self.endpoint.shown} did not acknowledge the event within {self.publish_timeout:g} s",
            hint=f"if it is only slow, raise sources.{self.source}.publish_timeout",
            sent=sent,
        )


def described(error: BaseException | str) -> str:
    return error if isinstance(error, str) else str(error) or type(error).__name__


class Inbox:
    """What a subscription received and nobody has read yet, or the error that ended it."""

    def __init__(self) -> None:
        self._items: asyncio.Queue[Incoming | SpindleError] = asyncio.Queue()
        self._ended = False

    def put(self, item: Incoming) -> bool:
        if self._ended:
            return False
        if self._items.qsize() >= MAX_WAITING:
            self.end(ConnectionFailedError(f"events came faster than they were read: {MAX_WAITING} wait"))
            return False
        self._items.put_nowait(item)
        return True

    def end(self, error: SpindleError) -> None:
        if not self._ended:
            self._ended = True
            self._items.put_nowait(error)

    def left(self) -> list[Incoming]:
        """What was never read."""
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
