"""The link to the bus of this process."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

from spindle.domain.json_schema import JsonObject
from spindle.sources.events.bus import EventBus
from spindle.sources.events.links.port import EventLink, Incoming, Outgoing


class MemoryLink(EventLink):
    """A link to the bus of a workspace in this process."""

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus

    async def publish(self, message: Outgoing) -> JsonObject:
        return {"subscribers": self._bus.publish(message.event)}

    @contextlib.asynccontextmanager
    async def subscribe(
        self, address: str, bindings: Mapping[str, Any]
    ) -> AsyncGenerator[AsyncIterator[Incoming]]:
        # An address is not a pattern, so its special characters are escaped.
        exact = "".join(f"[{sign}]" if sign in "*?[" else sign for sign in address)
        with contextlib.closing(self._bus.subscribe(exact)) as subscription:
            yield (
                Incoming(event, event.extensions.get("correlationid"))
                async for event in subscription
                if event.channel == address
            )
