"""What happened on the wire to one request. The SDK reports every HTTP failure alike; this remembers.

A request is sent in the context of whoever asked for it, so a context variable leads from the HTTP
client back to the caller.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class Exchange:
    status: int | None = None
    retry_after: float | None = None
    failure: Exception | None = None
    never_sent: bool = False
    too_large: str | None = None
    had_json_rpc_error: bool = False


current_exchange: ContextVar[Exchange | None] = ContextVar("spindle_mcp_exchange", default=None)
