"""Decides if and when a failed call is sent again."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from spindle.errors import BreakerOpenError, RateLimitedError, SpindleError

if TYPE_CHECKING:
    from spindle.domain.source import RetryConfig
    from spindle.domain.tool import Tool


def wait_before_retry(error: SpindleError, tool: Tool, attempt: int, config: RetryConfig) -> float | None:
    """Returns the seconds to wait before the next attempt, or None when there must be none: a call that might
    have had an effect is never made twice."""
    if attempt >= config.attempts or not _safe(error, tool, config):
        return None
    if error.retry_after is not None:
        # Coming back sooner than asked would only be refused again.
        return error.retry_after if error.retry_after <= config.max_wait else None
    longest = min(config.max_wait, config.wait * 2 ** (attempt - 1))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - spreads callers, guards nothing


def _safe(error: SpindleError, tool: Tool, config: RetryConfig) -> bool:
    if not error.retryable or isinstance(error, BreakerOpenError):
        return False
    if error.status is not None and error.status not in config.statuses:
        return False
    # It never left, or doing it twice is harmless, or the source did not do it and says when to come back.
    told_to = isinstance(error, RateLimitedError) and error.retry_after is not None
    return not error.sent or told_to or tool.hints.safe_to_repeat
