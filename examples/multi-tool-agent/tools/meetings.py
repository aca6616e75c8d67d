"""Python functions as tools. A real one would ask a calendar server."""

from datetime import time

from spindle import ToolError, tool

BUSY = {"ann": [9, 10, 14], "bob": [9, 13, 14, 15]}
INVITED: list[dict[str, object]] = []


@tool(read_only=True)
def free_hours(people: list[str]) -> list[str]:
    """The hours of a working day, in UTC, at which all these people are free.

    Args:
        people: Their names.
    """
    unknown = [name for name in people if name not in BUSY]
    if unknown:
        raise ToolError(f"there is no {unknown[0]!r}; known are {', '.join(BUSY)}")
    taken = {hour for name in people for hour in BUSY[name]}
    return [f"{time(hour):%H:%M}" for hour in range(9, 17) if hour not in taken]


@tool
def invite(people: list[str], day: str, hour: str) -> str:
    """Invite people to a meeting.

    Args:
        people: Their names.
        day: The date, such as 2026-11-20.
        hour: The time in UTC, such as 11:00.
    """
    INVITED.append({"people": people, "day": day, "hour": hour})
    return f"invited {' and '.join(people)} on {day} at {hour} UTC"


@tool(read_only=True)
def agenda(topic: str, minutes: int = 30) -> str:
    """A plain agenda for a meeting about a topic."""
    return f"{topic}: news (5 min), discussion ({minutes - 10} min), who does what (5 min)"
