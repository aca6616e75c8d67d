"""Decides if and when a failed call is sent again."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from spindle.errors import BreakerOpenError, BusyError, RateLimitedError, SpindleError

if TYPE_CHECKING:
    from spindle.domain.source import RetryConfig, SourceConfig
    from spindle.domain.tool import Tool

_SEVERAL_STEPS = frozenset({"agents", "python", "mods", "flows"})
"""Kinds whose tools are programs of their own, with steps that may have effects before one fails."""


def may_be_repeated(error: SpindleError, tool: Tool, config: SourceConfig, *, keyed: bool = False) -> bool:
    """True if it is worth making the same call again, and safe: one that might have had an effect is never
    made twice, unless somebody who is trusted says that it does no harm, or its source knows it again by the
    key that it was sent."""
    status = _status(error)
    if not (error.retryable if status is None else config.retry.repeats(status, error.retryable)):
        return False
    # A read that is not one does its harm the first time too; an effect is repeated on trusted words only.
    hints = tool.hints
    harmless = hints.safe_to_repeat if config.trusts_hints else bool(hints.read_only)
    return keyed or harmless or _did_nothing(error, tool)


def wait_before_retry(error: SpindleError, attempt: int, config: RetryConfig, left: float) -> float | None:
    """Returns the seconds to wait before the next attempt, or None when there must be none. `left` is
    what the next one and the wait for it may take."""
    # Who waited in vain for a place has used up the time of the call.
    if not error.retryable or isinstance(error, (BreakerOpenError, BusyError)) or attempt >= config.attempts:
        return None
    wait, longest = error.retry_after, min(config.max_wait, left)
    if wait is not None:
        # Coming back sooner than asked would only be refused again.
        return wait if wait <= longest else None
    wait = min(config.max_wait, config.wait * 2 ** (attempt - 1))
    wait *= random.uniform(0.5, 1.0)  # noqa: S311 - spreads callers, guards nothing
    return wait if wait <= left else None


def _status(error: SpindleError) -> int | None:
    """The status that the settings mean. Some services have another one for a limit, such as 403."""
    is_limit = isinstance(error, RateLimitedError) and error.status not in (None, 503)
    return 429 if is_limit else error.status


def _did_nothing(error: SpindleError, tool: Tool) -> bool:
    """True if the request never left, or the source refused it and asks to come back."""
    if tool.kind in _SEVERAL_STEPS or error.tool not in (None, tool.name):
        return False  # that the last step was refused says nothing about those before it
    refused = isinstance(error, RateLimitedError) and (error.status == 429 or error.retry_after is not None)
    return not error.sent or refused
