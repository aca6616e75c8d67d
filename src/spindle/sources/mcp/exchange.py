"""The HTTP exchange of one request: what an error of JSON-RPC does not say.

A request is sent in the context of whoever asked for it, so a context variable leads from the HTTP
client back to the caller, and the caller's credential to the request.
"""

from __future__ import annotations

from contextvars import ContextVar

from spindle.domain.call import Call
from spindle.domain.identity import Credential


class CallExchange:
    """The HTTP exchange of one request: its status, headers and failure."""

    # Defaults of the class, as there is nothing to say about most, and nobody asks.
    status: int | None = None
    challenge: str | None = None
    retry_after: float | None = None
    failure: Exception | None = None
    never_sent = False
    too_large: str | None = None
    had_json_rpc_error = False
    ended = False
    """True if the stream of events ended before it brought the answer."""

    def __init__(self, credential: Credential | None = None, call: Call | None = None) -> None:
        self.credential = credential
        """The caller's own, where it is not the one that the session was opened with."""
        self.call = call
        """The call that it serves, if it is one."""

    def begin(self) -> None:
        """Forgets what became of the request before."""
        self.status = self.challenge = self.retry_after = self.failure = self.too_large = None
        self.never_sent = self.had_json_rpc_error = self.ended = False


current_exchange: ContextVar[CallExchange | None] = ContextVar("spindle_mcp_exchange", default=None)
