"""Reads the time at which a server says to come back."""

from __future__ import annotations

import datetime
import email.utils
import math
import time


def retry_after(value: str | None) -> float | None:
    """Seconds from a Retry-After header, which is a number or a date."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            date = email.utils.parsedate_to_datetime(value)
        except (TypeError, ValueError):
            return None
        if date.tzinfo is None:
            date = date.replace(tzinfo=datetime.UTC)
        seconds = date.timestamp() - time.time()
    return max(0.0, seconds) if math.isfinite(seconds) else None
