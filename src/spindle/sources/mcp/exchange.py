"""The HTTP exchange of one request. The SDK reports every HTTP failure alike; this remembers the details.

A request is sent in the context of whoever asked for it, so a context variable leads from the HTTP
client back to the caller, and the caller's credential to the request.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from spindle.domain.call import Call
from spindle.domain.identity import Credential


@dataclass(slots=True)
class CallExchange:
    """The HTTP exchange of one request: its status, headers and failure."""

    credential: Credential | None = None
    """The caller's own, where it is not the one that the session was opened with."""
    call: Call | None = None
    """The call that it serves, if it is one."""
    status: int | None = None
    challenge: str | None = None
    retry_after: float | None = None
    failure: Exception | None = None
    never_sent: bool = False
    too_large: str | None = None
    had_json_rpc_error: bool = False
    ended: bool = False
    """True if the stream of events ended before it brought the answer."""
    list_key: str | None = None
    """The name of the list that the result holds, if it is asked for one."""
    listed: Any = None
    """That list, as it came."""

    def begin(self) -> None:
        """Forgets what became of the request before."""
        self.status = self.challenge = self.retry_after = self.failure = self.too_large = None
        self.never_sent = self.had_json_rpc_error = self.ended = False


def set_aside(result: dict[str, Any]) -> dict[str, Any]:
    """Returns a result without the list that was asked for, which the exchange keeps. The SDK would check
    all of it at once, on the event loop, and refuse every item for the sake of one."""
    exchange = current_exchange.get()
    if exchange is None or exchange.list_key is None:
        return result
    exchange.listed = result.get(exchange.list_key)
    return {**result, exchange.list_key: []}


current_exchange: ContextVar[CallExchange | None] = ContextVar("spindle_mcp_exchange", default=None)
