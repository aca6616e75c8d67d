"""Times: seconds since 1970, which can be counted with and compared; and their texts, in UTC or in a zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from spindle.flows.expressions.errors import ExpressionError

_ISO: Final = "%Y-%m-%dT%H:%M:%S"
UTC_NAME: Final = "UTC"
MAX_TEXT: Final = 100

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
           "November", "December")  # fmt: skip
_DIRECTIVE = re.compile(r"%(.?)", re.DOTALL)
_OFFSET = re.compile(r"([+-])([0-9]{2}):?([0-9]{2})")
WRITTEN: Final = "YmdHMSyjpIaAbBzZ%"
"""The letters of a format. The names are English wherever it runs."""
_READ: Final = frozenset("YmdHMSfzyjpIbB%")


def parse_date(text: str, format: str | None = None, zone: str = UTC_NAME) -> int | float:
    """Returns the time that a text names: ISO 8601, or as the format says. Without an offset it is of the
    zone."""
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
        since = (found if found.tzinfo is not None else found.replace(tzinfo=_zone(zone))) - _EPOCH
    except OverflowError:
        raise ExpressionError(f"{text!r} is out of the range of dates") from None
    seconds = since.total_seconds()
    return int(seconds) if seconds == int(seconds) else seconds


def format_date(seconds: float, format: str | None = None, zone: str = UTC_NAME) -> str:
    """Returns a time as text, in a zone: by the format, or ISO 8601."""
    where = _zone(zone)
    try:
        time = (_EPOCH + timedelta(seconds=seconds)).astimezone(where)
    except (OverflowError, ValueError):
        raise ExpressionError(f"{seconds} is out of the range of dates") from None
    if format is None:
        format = _ISO + ("%z" if time.utcoffset() else "Z")
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
        "z": time.isoformat()[-6:], "Z": time.tzname() or "",
    }  # fmt: skip
    if letter not in parts:
        raise _unknown(letter, WRITTEN)
    return parts[letter]


def _zone(name: str) -> tzinfo:
    """Returns the zone of a name such as Europe/Berlin, or of an offset such as +02:00."""
    if name == UTC_NAME:
        return UTC
    if (offset := _OFFSET.fullmatch(name)) is not None:
        minutes = int(offset[2]) * 60 + int(offset[3])
        if minutes < 24 * 60:
            return timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes))
    try:
        return ZoneInfo(name[:MAX_TEXT])
    except (ZoneInfoNotFoundError, ValueError, OSError):  # a folder of zones is no zone
        hint = "such as Europe/Berlin, UTC or +02:00"
        raise ExpressionError(f"there is no time zone {name[:MAX_TEXT]!r}", hint=hint) from None


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
