"""The port for what a server sends of its own accord."""

from __future__ import annotations

from typing import Protocol

from spindle.domain.json_schema import JsonObject


class ServerMessages(Protocol):
    """Takes what a server sends besides answers."""

    async def asked(self, method: str, params: JsonObject | None) -> JsonObject:
        """The answer to a request of the server. Raises McpError for one that is not answered."""
        ...

    def told(self, method: str, params: JsonObject) -> None:
        """Takes note of a notification, without waiting for anybody."""
        ...

    def told_subscriber(self, method: str, params: JsonObject) -> bool:
        """Takes a notification that belongs to a subscription; False if it belongs to none."""
        ...
