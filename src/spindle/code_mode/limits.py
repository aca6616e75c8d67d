"""The limits of a program, how it ended, and whether one can be executed at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

from spindle.domain.json_schema import JsonObject
from spindle.errors import ConfigurationError, ToolError

MOST_PRINTED: Final = 100_000
"""Characters that a program may print. What follows is left out."""
MOST_RETURNED: Final = 4_000_000
"""Bytes of the JSON of a program's value."""
MOST_GIVEN: Final = 20_000_000
"""Characters of the arguments of one call in a program."""
MOST_CODE: Final = 100_000
"""Characters of a program."""
MOST_LISTED: Final = 50
"""Calls that the error of a program lists."""


@dataclass(frozen=True, slots=True)
class CodeLimits:
    """The limits of one program."""

    seconds: float = 30.0
    """Seconds that it computes. Waiting for tools and people does not count."""
    memory: int = 100
    """Megabytes."""
    calls: int = 100
    """Calls of tools."""


@dataclass(slots=True)
class MadeCall:
    """A call that a program made."""

    tool: str
    outcome: str = "not ended"
    """`ok`, or the category of the error."""

    def to_dict(self) -> JsonObject:
        """Returns the call as JSON."""
        return {"tool": self.tool, "outcome": self.outcome}


@dataclass(frozen=True, slots=True)
class CodeResult:
    """The end of a program."""

    value: Any
    """The value of its last expression, as JSON."""
    printed: str
    calls: Sequence[MadeCall]

    def to_dict(self) -> JsonObject:
        """Returns what a model is told of it."""
        told: JsonObject = {"value": self.value}
        return told | ({"printed": self.printed} if self.printed else {})


def require_library() -> None:
    """Raises ConfigurationError if the extra is not installed."""
    if find_spec("pydantic_monty") is None:
        raise ConfigurationError("code mode needs the extra `code`", hint='pip install "spindle-tools[code]"')


class ProgramError(ToolError):
    """A program failed, or reached a limit. `details` holds its calls, and how each ended."""


def failed(
    message: str, calls: Sequence[MadeCall], printed: str = "", hint: str | None = None
) -> ProgramError:
    """Returns the error of a program, which says what it had done."""
    lines = [message]
    if calls:
        lines.append(f"It had made {len(calls)} call{'s' if len(calls) > 1 else ''}:")
        lines += [
            f"{number}. {call.tool}: {call.outcome}" for number, call in enumerate(calls[:MOST_LISTED], 1)
        ]
        if len(calls) > MOST_LISTED:
            lines.append(f"… and {len(calls) - MOST_LISTED} more")
    else:
        lines.append("It had made no calls.")
    if printed:
        lines += ["It had printed:", printed]
    return ProgramError("\n".join(lines), hint=hint, details={"calls": [call.to_dict() for call in calls]})
