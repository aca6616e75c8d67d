"""Answers of servers: a result or an error, and the errors for those that never came or cannot be read."""

from __future__ import annotations

from typing import Any

from spindle.domain.json_schema import is_object
from spindle.mcp_protocol.errors import McpError
from spindle.mcp_protocol.names import CONNECTION_CLOSED, INTERNAL_ERROR, PARSE_ERROR, REQUEST_TIMEOUT


class LinkLostError(McpError):
    """The server is gone. `sent` says whether the request had left."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(code=CONNECTION_CLOSED, message=reason)
        self.sent = sent


class MessageTooLargeError(McpError):
    """The answer was over the size limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(code=INTERNAL_ERROR, message=f"the answer is larger than {limit} bytes")


class UnreadableAnswerError(McpError):
    """The answer is not one of JSON-RPC."""

    def __init__(self, reason: str) -> None:
        super().__init__(code=PARSE_ERROR, message=reason)


class NoAnswerError(McpError):
    """There was no answer in time."""

    def __init__(self, method: str) -> None:
        super().__init__(code=REQUEST_TIMEOUT, message=f"{method} timed out")


def outcome(message: dict[str, Any]) -> dict[str, Any] | McpError:
    """The result that an answer brings, or the error."""
    result, error = message.get("result"), message.get("error")
    if is_object(error):
        code, text = error.get("code"), error.get("message")
        return McpError(
            code=code if isinstance(code, int) else INTERNAL_ERROR,
            message=text if isinstance(text, str) else "the server gave no reason",
            data=error.get("data"),
        )
    if is_object(result):
        return result
    return UnreadableAnswerError("the server's answer is neither a result nor an error")
