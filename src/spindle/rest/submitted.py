"""Calls whose callers do not wait: `Prefer: respond-async` puts them into a queue."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Final

from spindle.domain.json_schema import JsonObject
from spindle.domain.moments import seconds_in
from spindle.domain.run import DEFAULT_QUEUE, USUAL_PRIORITY
from spindle.errors import ConfigurationError, InvalidArgumentsError, PermissionDeniedError, did_you_mean
from spindle.rest.paused import ASYNC
from spindle.runs.placing import Placing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spindle.app import Spindle

LAST: Final = 1_000_000
MAX_KEY: Final = 255
"""Characters of a key."""
PARAMETERS: Final[JsonObject] = {
    "queue": {
        "description": "One of the queues that callers may use.",
        "schema": {"type": "string", "default": DEFAULT_QUEUE},
    },
    "priority": {
        "description": f"A larger number is later than the usual {USUAL_PRIORITY}.",
        "schema": {"type": "integer", "minimum": USUAL_PRIORITY, "maximum": LAST, "default": USUAL_PRIORITY},
    },
    "at": {
        "description": "Not before this time, such as `2026-11-17T09:30:00Z`, or in `15m`.",
        "schema": {"type": "string"},
    },
    "dedup": {
        "description": "A key: of your calls with the same one, in the same queue, all are one run.",
        "schema": {"type": "string", "minLength": 1, "maxLength": MAX_KEY},
    },
}
"""The parameters of a call that is put into a queue, in the query."""


def wants_async(headers: Mapping[str, str]) -> bool:
    """True if a caller does not wait for the result."""
    wanted = headers.get("prefer", "").lower().split(",")
    return any(part.partition(";")[0].strip() == ASYNC for part in wanted)


def served_queues(spindle: Spindle) -> list[str]:
    """Returns the queues that callers may use."""
    try:
        queues = spindle.runner.submissions.engine.queues
    except ConfigurationError:
        return []  # said to whoever names one
    return [name for name, config in queues.items() if config.is_served(name)]


def placing_of(spindle: Spindle, query: Mapping[str, str], *, is_async: bool) -> Placing | None:
    """Returns how a call is to be submitted; None if its caller waits for it, or there is no engine: a
    preference may be left alone. Raises what is wrong with the query."""
    given = {name: value for name, value in query.items() if name in PARAMETERS}
    if not is_async:
        if given:
            raise InvalidArgumentsError(
                f"the parameter {next(iter(given))!r} is for calls in a queue", hint=f"send Prefer: {ASYNC}"
            )
        return None
    for name in query:
        if name not in PARAMETERS:
            hint = did_you_mean(name, PARAMETERS, f"known are {', '.join(PARAMETERS)}")
            raise InvalidArgumentsError(f"there is no parameter {name!r}", hint=hint)
    served = served_queues(spindle)
    if not served and not given:
        return None
    name = given.get("queue", DEFAULT_QUEUE)
    spindle.runner.submissions.engine.queue(name)  # raises if there is none
    if name not in served:
        raise PermissionDeniedError(
            f"callers may not use the queue {name!r}: they may use {', '.join(served)}"
        )
    return Placing(name, _priority(given), _moment(given), _key(given))


def _priority(given: Mapping[str, str]) -> int:
    text = given.get("priority", str(USUAL_PRIORITY))
    if not (text.isascii() and text.isdecimal() and USUAL_PRIORITY <= int(text[:9]) <= LAST):
        # Who calls from outside does not overtake others.
        raise InvalidArgumentsError(
            f"the priority {text[:20]!r} is not a whole number from {USUAL_PRIORITY} to {LAST}"
        )
    return int(text[:9])


def _moment(given: Mapping[str, str]) -> float | None:
    text = given.get("at")
    if text is None:
        return None
    wait = seconds_in(text)
    if wait is not None:
        return time.time() + wait
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is not None:  # the zone of the server is nothing that its callers know
            return found.timestamp()
    except (ValueError, OverflowError):
        pass
    raise InvalidArgumentsError(
        f"{text[:40]!r} is no time",
        hint="such as 2026-11-17T09:30:00Z, with its zone, or how long from now: 15m, 7d",
    )


def _key(given: Mapping[str, str]) -> str | None:
    key = given.get("dedup")
    if key is not None and not 0 < len(key) <= MAX_KEY:
        raise InvalidArgumentsError(f"a key has 1 to {MAX_KEY} characters")
    return key
