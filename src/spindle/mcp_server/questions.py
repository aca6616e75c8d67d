"""Requests that we make of a client, and its answers."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from spindle.domain.json_schema import JsonObject, is_object
from spindle.mcp_protocol.errors import McpError
from spindle.mcp_protocol.names import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    REQUEST_TIMEOUT,
)
from spindle.mcp_server.channel import Send
from spindle.mcp_server.inbound import is_capable

if TYPE_CHECKING:
    from spindle.mcp_server.connection import ClientConnection
    from spindle.serving.processes import Processes

ROOTS_TIMEOUT: Final = 30.0
"""Seconds for an answer that a program gives by itself."""


class Questions:
    """The questions of one handshake-era session that wait for an answer."""

    def __init__(self, processes: Processes | None = None) -> None:
        """`processes` are those that a client may answer instead of this one."""
        self._processes = processes
        self._ids = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[JsonObject]] = {}

    def new_id(self) -> str:
        """An id for a question. Whichever process gets the answer sees who asked."""
        process = f"-{self._processes.id}" if self._processes is not None else ""
        return f"spindle{process}-{next(self._ids)}"

    async def ask(
        self, method: str, params: Mapping[str, Any] | None, send: Send, question: str | None = None
    ) -> JsonObject:
        question = question or self.new_id()
        answer = self._waiting[question] = asyncio.get_running_loop().create_future()
        message: JsonObject = {"jsonrpc": "2.0", "id": question, "method": method}
        try:
            with self._processes.expecting() if self._processes is not None else contextlib.nullcontext():
                await send(message | ({"params": dict(params)} if params is not None else {}))
                return await answer
        finally:
            del self._waiting[question]

    def answered(self, message: JsonObject) -> bool:
        """Takes a client's answer. Returns False if no question waits for it."""
        waiting = self._waiting.get(str(message.get("id")))
        if waiting is None or waiting.done():
            return False
        error, result = message.get("error"), message.get("result")
        if is_object(error):
            code, text = error.get("code"), error.get("message")
            known = code if isinstance(code, int) else INTERNAL_ERROR
            waiting.set_exception(
                McpError(known, str(text or "the client gave no reason"), error.get("data"))
            )
        elif is_object(result):
            waiting.set_result(result)
        else:
            waiting.set_exception(McpError(INTERNAL_ERROR, "the client's answer is neither result nor error"))
        return True

    def close(self) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(McpError(CONNECTION_CLOSED, "the client is gone"))


async def roots_of(
    connection: ClientConnection, ask: Callable[[str, None], Awaitable[JsonObject]]
) -> JsonObject:
    """A client's roots, by way of its session. Raises McpError if it gives none."""
    if not is_capable(connection.client_capabilities, "roots/list"):
        raise McpError(INVALID_REQUEST, "this client has no roots")
    try:
        async with asyncio.timeout(ROOTS_TIMEOUT):
            return await ask("roots/list", None)
    except TimeoutError:
        raise McpError(REQUEST_TIMEOUT, "the client did not say its roots") from None


def asked_by(message: JsonObject) -> str | None:
    """The process that asked what a message answers, or None if it names none."""
    parts = str(message.get("id"))[:100].split("-")
    return parts[1] if len(parts) == 3 and parts[0] == "spindle" and parts[1].isalnum() else None
