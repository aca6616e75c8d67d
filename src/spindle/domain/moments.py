"""Lengths of time that users write: `15m`, `7d`."""

from __future__ import annotations

import re

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_AGE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*([smhdw])", re.ASCII)


def seconds_in(text: str) -> float | None:
    """Returns the seconds of a length of time such as `7d`; None if it is none."""
    match = _AGE.fullmatch(text.strip())
    return float(match[1]) * _UNITS[match[2]] if match else None
