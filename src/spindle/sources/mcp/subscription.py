"""A request to be told of changes, and what a server tells in answer to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from spindle.domain.json_schema import JsonObject, is_object
from spindle.mcp_protocol import names

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
FLAGS = {
    names.TOOLS_CHANGED: "toolsListChanged",
    names.PROMPTS_CHANGED: "promptsListChanged",
    names.RESOURCES_CHANGED: "resourcesListChanged",
}
"""By notification, the switch of a subscription that asks for it."""
URIS = "resourceSubscriptions"

OnEvent = Callable[[str, JsonObject], None]
"""Takes a notification: its method and parameters."""


class ChangeSubscription:
    """A request to be told of changes, for as long as it lasts."""

    def __init__(self, on_ready: Callable[[], None], on_event: OnEvent) -> None:
        self._on_ready = on_ready
        self._on_event = on_event
        self._granted: JsonObject | None = None
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def told(self, method: str, params: JsonObject) -> bool:
        """Takes a notification of the server about this subscription; False if it means nothing here."""
        if method == ACKNOWLEDGED:
            granted = params.get("notifications")
            if not is_object(granted):
                return False
            if self._granted is None:
                self._granted = granted
                self._on_ready()
            return True
        # Only what the server has agreed to tell; a resource may be one below that which was asked for.
        switch = URIS if method == names.RESOURCE_UPDATED else FLAGS.get(method)
        if switch is not None and self._granted is not None and self._granted.get(switch):
            self._on_event(method, params)
        return switch is not None

    def lose(self) -> None:
        """Notes that the server has ended it."""
        if not self.lost.done():
            self.lost.set_result(None)
