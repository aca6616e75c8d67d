"""Times: seconds since 1970 in UTC, which can be counted with and compared; and their texts."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from spindle.flows.expressions.errors import ExpressionError

ISO: Final = "%Y-%m-%dT%H:%M:%SZ"
MAX_TEXT: Final = 100

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
           "November", "December")  # fmt: skip
_DIRECTIVE = re.compile(r"%(.?)", re.DOTALL)
WRITTEN: Final = "YmdHMSyjpIaAbB%"
"""The letters of a format. The names are English wherever it runs."""
_READ: Final = frozenset("YmdHMSfzyjpIbB%")


def parse_date(text: str, format: str | None = None) -> int | float:
    """Returns the time that a text names: ISO 8601, or as the format says. Without an offset it is UTC."""
    if len(text) > MAX_TEXT:
        raise ExpressionError(f"{text[:20]!r}… is not a date")
    try:
        found = datetime.fromisoformat(text.strip()) if format is None else _read(text, format)
    except ExpressionError:
        raise
    except (ValueError, OverflowError):
        wanted = "in the form of ISO 8601, such as 2026-11-17" if format is None else f"of the form {format}"
        raise ExpressionError(f"{text!r} is not a date {wanted}") from None
    try:
        since = (found if found.tzinfo is not None else found.replace(tzinfo=UTC)) - _EPOCH
    except OverflowError:
        raise ExpressionError(f"{text!r} is out of the range of dates") from None
    seconds = since.total_seconds()
    return int(seconds) if seconds == int(seconds) else seconds


def format_date(seconds: float, format: str = ISO) -> str:
    """Returns a time as text, in UTC."""
    try:
        time = _EPOCH + timedelta(seconds=seconds)
    except (OverflowError, ValueError):
        raise ExpressionError(f"{seconds} is out of the range of dates") from None
    if len(format) > MAX_TEXT:
        raise ExpressionError(f"a format has at most {MAX_TEXT} characters")
    return _DIRECTIVE.sub(lambda found: _part(found[1], time), format)


def _part(letter: str, time: datetime) -> str:
    parts: dict[str, Any] = {
        "Y": f"{time.year:04}", "m": f"{time.month:02}", "d": f"{time.day:02}",
        "H": f"{time.hour:02}", "M": f"{time.minute:02}", "S": f"{time.second:02}",
        "y": f"{time.year % 100:02}", "j": f"{time.timetuple().tm_yday:03}",
        "I": f"{(time.hour + 11) % 12 + 1:02}", "p": "AM" if time.hour < 12 else "PM",
        "A": _DAYS[time.weekday()], "a": _DAYS[time.weekday()][:3],
        "B": _MONTHS[time.month - 1], "b": _MONTHS[time.month - 1][:3], "%": "%",
    }  # fmt: skip
    if letter not in parts:
        raise _unknown(letter, WRITTEN)
    return parts[letter]


def _read(text: str, format: str) -> datetime:
    letters = _DIRECTIVE.findall(format)
    for letter in letters:
        if letter not in _READ:
            raise _unknown(letter, "".join(sorted(_READ)))
    if len(format) > MAX_TEXT or any(letters.count(letter) > 1 for letter in set(letters) - {"%"}):
        raise ExpressionError(f"a format has each letter once, and at most {MAX_TEXT} characters")
    if not {"Y", "y"} & set(letters):
        raise ExpressionError("the format of a date has %Y or %y")
    return datetime.strptime(text, format)


def _unknown(letter: str, known: str) -> ExpressionError:
    listed = " ".join(f"%{one}" for one in known)
    return ExpressionError(f"a format has no %{letter}", hint=f"there are {listed}")
