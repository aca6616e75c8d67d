"""The ticks of a schedule: times of a cron expression in a time zone, or intervals.

When clocks are set forward, a tick in the hour that does not exist comes at its end. When they are set back,
a tick in the hour that comes twice comes in the first, unless its schedule is for every hour.
"""

from __future__ import annotations

import math
import re
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol
from zoneinfo import ZoneInfo

from spindle.errors import ConfigurationError, InvalidArgumentsError, suggest

if TYPE_CHECKING:
    from croniter import croniter

    from spindle.domain.schedule import Schedule

MAX_CRON: Final = 200
"""Characters of a cron expression."""
SHORTEST: Final = 1.0
LONGEST: Final = 366 * 86400.0
_FIELDS: Final = (5, 6)
"""The numbers of fields; of six, the first is for seconds."""
_HOURLY: Final = "@hourly"
_NAMED: Final = (_HOURLY, "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually")
_CHANCE: Final = re.compile(r"(?<![A-Za-z])[HhRr](?![A-Za-z])")
"""Values that croniter draws by chance: each worker would draw another."""
_HINT: Final = "such as '0 9 * * mon-fri': minute, hour, day, month, weekday; seconds may go before them"


class Ticks(Protocol):
    """The ticks of one schedule, in seconds since 1970."""

    def after(self, time: float) -> float:
        """Returns the first tick after a time."""
        ...

    def newest(self, since: float, until: float, count: int) -> list[float]:
        """Returns the last ticks of a stretch of time, both ends with it, at most so many, the oldest
        first."""
        ...


def ticks_of(schedule: Schedule) -> Ticks:
    """Returns the ticks of a schedule. Raises InvalidArgumentsError if it can have none."""
    if schedule.cron is not None:
        return _cron(schedule.cron, schedule.zone)
    if schedule.every is None or not SHORTEST <= schedule.every <= LONGEST:
        raise InvalidArgumentsError(
            f"ticks cannot be {schedule.every} s apart", hint=f"from {SHORTEST:g} s to {LONGEST:g} s can be"
        )
    return _Intervals(schedule.every, float(math.floor(schedule.created_at)))


class _Intervals:
    def __init__(self, every: float, start: float) -> None:
        self._every = every
        self._start = start

    def after(self, time: float) -> float:
        return self._start + (max(self._number(time), 0) + 1) * self._every

    def newest(self, since: float, until: float, count: int) -> list[float]:
        last = self._number(until)
        ticks = (self._start + number * self._every for number in range(max(last - count, 0) + 1, last + 1))
        return [tick for tick in ticks if tick >= since]

    def _number(self, time: float) -> int:
        """Returns the number of the last tick up to a time. Multiplied as `after` does, so that it agrees
        with it to the last bit."""
        number = math.floor((time - self._start) / self._every)
        while self._start + (number + 1) * self._every <= time:
            number += 1
        while self._start + number * self._every > time:
            number -= 1
        return number


class _Cron:
    def __init__(self, expression: str, zone: ZoneInfo, *, hourly: bool) -> None:
        self._expression = expression
        self._zone = zone
        self._hourly = hourly

    def _around(self, time: float) -> croniter:
        from croniter import croniter

        local = datetime.fromtimestamp(time, self._zone)
        return croniter(self._expression, local, second_at_beginning=True)

    def after(self, time: float) -> float:
        found = self._around(time)
        while True:
            tick = found.get_next(datetime)
            if self._counts(tick):
                return tick.timestamp()

    def newest(self, since: float, until: float, count: int) -> list[float]:
        ticks: list[float] = []
        # Before the next second, so that a tick at this very time is among them.
        found = self._around(math.floor(until) + 1)
        while len(ticks) < count and since <= until:
            tick = found.get_prev(datetime)
            if tick.timestamp() < since:
                break
            if self._counts(tick):
                ticks.append(tick.timestamp())
        return ticks[::-1]

    def _counts(self, tick: datetime) -> bool:
        # Made anew: croniter also marks times as second ones that come once.
        return self._hourly or not datetime.fromtimestamp(tick.timestamp(), self._zone).fold


@lru_cache(maxsize=256)
def _cron(expression: str, zone: str) -> _Cron:
    try:
        from croniter import CroniterError
    except ImportError:
        raise ConfigurationError(
            "cron expressions cannot be read: croniter is not installed",
            hint="pip install 'spindle-tools[durable]'",
        ) from None
    words = expression.split()
    known = _zone(zone)
    is_named = expression in _NAMED
    if not is_named:
        if expression.startswith("@"):
            meant = suggest(expression, _NAMED)
            raise InvalidArgumentsError(
                f"{expression!r} is no cron expression",
                hint=f"did you mean {meant}?" if meant else f"known are {', '.join(_NAMED)}",
            )
        if len(expression) > MAX_CRON or len(words) not in _FIELDS or _CHANCE.search(expression):
            raise InvalidArgumentsError(
                f"{expression[:MAX_CRON]!r} is no cron expression of five or six fields", hint=_HINT
            )
    try:
        found = _Cron(expression, known, hourly=expression == _HOURLY or (not is_named and words[-4] == "*"))
        found.after(0.0)
    except (CroniterError, ValueError, OverflowError) as error:
        raise InvalidArgumentsError(
            f"the cron expression {expression!r} never ticks: {error}", hint=_HINT
        ) from None
    return found


def _zone(name: str) -> ZoneInfo:
    from zoneinfo import available_timezones

    known = available_timezones()
    if name not in known:  # also a path, which ZoneInfo would open
        meant = suggest(name, known)
        raise InvalidArgumentsError(
            f"there is no time zone {name!r}",
            hint=f"did you mean {meant!r}?" if meant else "such as UTC, Europe/Berlin or America/New_York",
        )
    return ZoneInfo(name)
