"""Events inside this process. A workspace has one bus, even if it is opened several times, in any thread."""

from __future__ import annotations

import asyncio
import fnmatch
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from spindle.errors import ServerError

if TYPE_CHECKING:
    from spindle.domain.event import Event

MAX_WAITING: Final = 10_000


class EventBus:
    """Delivers events to the subscriptions of one workspace."""

    def __init__(self) -> None:
        # Unreferenced subscriptions disappear by themselves.
        self._subscriptions: weakref.WeakSet[Subscription] = weakref.WeakSet()
        self._lock = threading.Lock()

    def subscribe(self, pattern: str = "*") -> Subscription:
        """Subscribes to events from now on. Needs a running event loop, on which the events are read."""
        subscription = Subscription(self, pattern)
        with self._lock:
            self._subscriptions.add(subscription)
        return subscription

    def emit(self, channel: str, data: Any, attributes: Mapping[str, Any]) -> Event:
        """Publishes an event of this workspace, with attributes that are not the usual ones, and returns
        it."""
        from spindle.domain.event import Event

        usual: dict[str, Any] = {"type": channel, "source": "/spindle", "subject": channel}
        event = Event(data=data, channel=channel, **{**usual, **attributes})
        self.publish(event)
        return event

    def publish(self, event: Event) -> int:
        """Delivers the event to all matching subscriptions and returns their number; to none if one is
        full."""
        with self._lock:
            listening = [item for item in self._subscriptions if item.wants(event)]
            for subscription in listening:
                if subscription.waiting >= MAX_WAITING:
                    raise ServerError(
                        f"a subscriber to {subscription.pattern!r} is too slow: {MAX_WAITING} events wait",
                        hint="read them faster, or close the subscription",
                        retryable=True,
                        sent=False,
                    )
            return sum(subscription.deliver(event) for subscription in listening)

    def forget(self, subscription: Subscription) -> None:
        """Removes a subscription."""
        with self._lock:
            self._subscriptions.discard(subscription)


class Subscription:
    """Events to be read with `async for`. Close it with `async with`, or with `close`."""

    def __init__(self, bus: EventBus, pattern: str) -> None:
        self.pattern = pattern
        self._bus = bus
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._closed = False

    @property
    def waiting(self) -> int:
        return self._events.qsize()

    def wants(self, event: Event) -> bool:
        return matches(self.pattern, event)

    def deliver(self, event: Event | None) -> bool:
        try:
            if threading.get_ident() == self._thread:
                self._events.put_nowait(event)
            else:
                self._loop.call_soon_threadsafe(self._events.put_nowait, event)
        except RuntimeError:
            return False  # its event loop has ended, so nobody can read it
        return True

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._bus.forget(self)
            self.deliver(None)

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Event:
        event = await self._events.get()
        if event is None:
            self._events.put_nowait(None)
            raise StopAsyncIteration
        return event

    async def __aenter__(self) -> Subscription:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


def matches(pattern: str, event: Event) -> bool:
    """True if a pattern, such as `orders/*`, matches the event's channel or type."""
    return fnmatch.fnmatchcase(event.channel, pattern) or fnmatch.fnmatchcase(event.type, pattern)


_buses: weakref.WeakValueDictionary[str, EventBus] = weakref.WeakValueDictionary()
_making = threading.Lock()


def bus_of(root: Path) -> EventBus:
    """The bus of a workspace. It lives as long as it is referenced."""
    key = str(root.resolve())
    with _making:
        bus = _buses.get(key)
        if bus is None:
            bus = _buses[key] = EventBus()
        return bus
