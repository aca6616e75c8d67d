"""The HTTP exchange of one request: what an error of JSON-RPC does not say.

A request is sent in the context of whoever asked for it, so a context variable leads from the HTTP
client back to the caller, and the caller's credential to the request.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

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

    def begin(self) -> None:
        """Forgets what became of the request before."""
        self.status = self.challenge = self.retry_after = self.failure = self.too_large = None
        self.never_sent = self.had_json_rpc_error = self.ended = False


current_exchange: ContextVar[CallExchange | None] = ContextVar("spindle_mcp_exchange", default=None)
