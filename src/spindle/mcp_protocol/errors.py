"""The error that JSON-RPC carries, and the ids of requests."""

from __future__ import annotations

from typing import Any, TypeAlias

from spindle.mcp_protocol.names import INVALID_REQUEST

RequestId: TypeAlias = str | int


class McpError(Exception):
    """An error of the other side, or one that it is answered with."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(code, message, data)
        self.code = code
        self.message = message
        self.data = data

    def __str__(self) -> str:
        return self.message


class NoWayBackError(McpError):
    """There is no way to ask the other side anything."""

    def __init__(self, method: str) -> None:
        message = f"Cannot send {method!r}: there is no back-channel for requests of the server."
        super().__init__(INVALID_REQUEST, message)


def as_request_id(value: Any) -> RequestId | None:
    """The value, if it can be the id of a request: text or an integer, which a boolean is not."""
    return value if isinstance(value, (str, int)) and not isinstance(value, bool) else None


def same_id(request_id: RequestId) -> RequestId:
    """The id in the form by which ids are compared: some answer a number with the same number as text."""
    if isinstance(request_id, str):
        try:
            return int(request_id)
        except ValueError:
            pass
    return request_id
