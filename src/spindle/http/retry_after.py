"""Reads the time at which a server says to come back."""

from __future__ import annotations

import datetime
import email.utils
import math
import time
from collections.abc import Mapping


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds from a Retry-After header, which is a number or a date. Between dates the server's own clock
    counts, if it says the time: ours may be wrong."""
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        then = _moment(value)
        if then is None:
            return None
        now = _moment(headers.get("date") or "")
        seconds = then - (time.time() if now is None else now)
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _moment(value: str) -> float | None:
    try:
        date = email.utils.parsedate_to_datetime(value)
        return (date if date.tzinfo is not None else date.replace(tzinfo=datetime.UTC)).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
