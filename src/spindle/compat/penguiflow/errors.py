"""Penguiflow's errors, and the way from Spindle's and anybody's exceptions to them."""

from __future__ import annotations

import asyncio
import re
from enum import Enum
from typing import Any

from spindle import errors as ours
from spindle.errors import Interruption, SpindleError


class ErrorCategory(Enum):
    """The kinds of failure that decide if a call may be tried again."""

    RETRYABLE_SERVER = "retryable_server"
    RETRYABLE_RATE_LIMIT = "retryable_rate"
    NON_RETRYABLE_CLIENT = "non_retryable"
    AUTH_REQUIRED = "auth_required"
    NETWORK = "network"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


_RETRYABLE = (ErrorCategory.RETRYABLE_SERVER, ErrorCategory.RETRYABLE_RATE_LIMIT, ErrorCategory.NETWORK)
USUAL_WAIT = 1.0
"""Seconds to wait after "too many requests", where the source does not say how long."""


class ToolNodeError(Exception):
    """The base of the errors that a ToolNode raises. Its category is the one given, else that of the status,
    else that of its class."""

    category: ErrorCategory = ErrorCategory.UNKNOWN

    def __init__(
        self,
        message: str,
        *,
        status_code: int | None = None,
        category: ErrorCategory | None = None,
        cause: BaseException | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.category = category or _category_of(status_code) or type(self).category
        self.retry_after = retry_after
        self.__cause__ = cause

    @property
    def is_retryable(self) -> bool:
        """True if the same call may succeed later."""
        return self.category in _RETRYABLE

    @property
    def retry_after_seconds(self) -> float | None:
        """The seconds to wait before the next try, where there is a reason to wait."""
        if self.retry_after is not None:
            return self.retry_after
        return USUAL_WAIT if self.category is ErrorCategory.RETRYABLE_RATE_LIMIT else None

    def to_dict(self) -> dict[str, Any]:
        """Describes the error as JSON."""
        return {
            "type": type(self).__name__,
            "message": str(self),
            "status_code": self.status_code,
            "category": self.category.value,
            "is_retryable": self.is_retryable,
        }


class ToolAuthError(ToolNodeError):
    """A credential is missing or was refused."""

    category = ErrorCategory.AUTH_REQUIRED


class ToolTimeoutError(ToolNodeError):
    """The tool did not answer in time."""

    category = ErrorCategory.RETRYABLE_SERVER


class ToolConnectionError(ToolNodeError):
    """The source of the tool cannot be reached."""

    category = ErrorCategory.NETWORK


class ToolRateLimitError(ToolNodeError):
    """The source asks to wait."""

    category = ErrorCategory.RETRYABLE_RATE_LIMIT


class ToolClientError(ToolNodeError):
    """The call itself is wrong, or the tool reported an error."""

    category = ErrorCategory.NON_RETRYABLE_CLIENT


class ToolServerError(ToolNodeError):
    """The source failed."""

    category = ErrorCategory.RETRYABLE_SERVER


# The first that fits is taken.
_THEIRS: tuple[tuple[type[SpindleError], type[ToolNodeError]], ...] = (
    (ours.CallTimeoutError, ToolTimeoutError),
    (ours.ConnectionFailedError, ToolConnectionError),
    (ours.RateLimitedError, ToolRateLimitError),
    (ours.AuthError, ToolAuthError),
    (ours.PermissionDeniedError, ToolAuthError),
    (ours.ServerError, ToolServerError),
    (ours.ToolError, ToolClientError),
    (ours.ClientError, ToolClientError),
    (ours.InvalidArgumentsError, ToolClientError),
    (ours.NotFoundError, ToolClientError),
)


_TRANSIENT = range(500, 505)
"""Statuses that are worth another try by themselves. Ours also asks if the tool may be called again."""


def adapt_exception(exc: BaseException, transport: str) -> ToolNodeError:
    """Returns the ToolNodeError for an exception. Cancellation and pauses are raised again, never wrapped."""
    if isinstance(exc, asyncio.CancelledError | Interruption):
        raise exc
    if isinstance(exc, ToolNodeError):
        return exc
    if isinstance(exc, SpindleError):
        return _adapted(exc)
    if isinstance(exc, TimeoutError):
        return ToolTimeoutError(f"the call took too long: {exc}", cause=exc)
    if isinstance(exc, OSError):
        return ToolConnectionError(f"the source cannot be reached: {exc}", cause=exc)
    return adapt_mcp_error(exc) if transport == "mcp" else adapt_utcp_error(exc)


def adapt_mcp_error(exc: BaseException) -> ToolNodeError:
    """Returns the ToolNodeError for an exception of an MCP client library."""
    name, text = type(exc).__name__, str(exc)
    if "McpError" in name or "ToolError" in name:
        return ToolClientError(f"MCP: {text}", cause=exc)
    if "ConnectionError" in name or "connection" in text.lower():
        return ToolConnectionError(f"MCP: {text}", cause=exc)
    return _by_status(_status_of(exc), f"MCP: {text}", exc)


def adapt_utcp_error(exc: BaseException) -> ToolNodeError:
    """Returns the ToolNodeError for an exception of a UTCP client library, whose messages name the status."""
    name, text = type(exc).__name__, str(exc)
    status = _status_of(exc)
    if status is None and (named := re.search(r"(?:HTTP|status)[:\s]*(\d{3})\b", text, re.IGNORECASE)):
        status = int(named[1])
    if status is None and ("Connection" in name or "connection" in text.lower()):
        return ToolConnectionError(f"UTCP: {text}", cause=exc)
    if status is None and ("Timeout" in name or "timeout" in text.lower()):
        return ToolTimeoutError(f"UTCP: {text}", cause=exc)
    return _by_status(status, f"UTCP: {text}", exc)


def _adapted(error: SpindleError) -> ToolNodeError:
    message = error.message if error.hint is None else f"{error.message} ({error.hint})"
    kind = next((theirs for mine, theirs in _THEIRS if isinstance(error, mine)), ToolNodeError)
    category = kind.category
    if isinstance(error, ours.CancelledCallError):
        category = ErrorCategory.CANCELLED
    elif kind is ToolServerError and not error.retryable and error.status not in _TRANSIENT:
        category = ErrorCategory.UNKNOWN  # a broken protocol does not mend itself
    return kind(
        message, status_code=error.status, category=category, cause=error, retry_after=error.retry_after
    )


def _status_of(exc: BaseException) -> int | None:
    """The HTTP status that an exception carries under one of the usual names."""
    for holder in (exc, getattr(exc, "response", None)):
        for name in ("status_code", "status", "code"):
            found: object = getattr(holder, name, None)
            if isinstance(found, int) and 100 <= found <= 599:
                return found
    return None


def _category_of(status: int | None) -> ErrorCategory | None:
    if status is None or not 400 <= status <= 504:
        return None
    if status >= 500:
        return ErrorCategory.RETRYABLE_SERVER
    if status == 429:
        return ErrorCategory.RETRYABLE_RATE_LIMIT
    return ErrorCategory.AUTH_REQUIRED if status in (401, 403) else ErrorCategory.NON_RETRYABLE_CLIENT


_BY_CATEGORY: dict[ErrorCategory | None, type[ToolNodeError]] = {
    ErrorCategory.RETRYABLE_SERVER: ToolServerError,
    ErrorCategory.RETRYABLE_RATE_LIMIT: ToolRateLimitError,
    ErrorCategory.AUTH_REQUIRED: ToolAuthError,
    ErrorCategory.NON_RETRYABLE_CLIENT: ToolClientError,
}


def _by_status(status: int | None, message: str, exc: BaseException) -> ToolNodeError:
    kind = _BY_CATEGORY.get(_category_of(status), ToolNodeError)
    return kind(message, status_code=status, cause=exc)
