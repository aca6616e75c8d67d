"""What happened on the wire to one request. The SDK reports every HTTP failure alike; this remembers.

A request is sent in the context of whoever asked for it, so a context variable leads from the HTTP
client back to the caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeVar

from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED

T = TypeVar("T")


@dataclass(slots=True)
class Exchange:
    status: int | None = None
    retry_after: float | None = None
    failure: Exception | None = None
    never_sent: bool = False
    too_large: str | None = None
    had_json_rpc_error: bool = False
    _failed: asyncio.Event = field(default_factory=asyncio.Event)

    def fail(self) -> None:
        """No answer will come for this request."""
        self._failed.set()

    async def first_of(self, answer: Awaitable[T]) -> T:
        """The answer, or an error as soon as it is known that none will come. For transports that
        take requests and give answers on different connections."""
        waiting = asyncio.ensure_future(answer)
        failed = asyncio.ensure_future(self._failed.wait())
        try:
            await asyncio.wait({waiting, failed}, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                return waiting.result()
            raise MCPError(code=CONNECTION_CLOSED, message="the request could not be delivered")
        finally:
            failed.cancel()
            if not waiting.done():
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)


current_exchange: ContextVar[Exchange | None] = ContextVar("spindle_mcp_exchange", default=None)
