"""Calls that may have been done: which are noted before they are sent, and what becomes of them later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spindle.domain.call import Result
from spindle.errors import ApprovalRequired, InDoubtError

if TYPE_CHECKING:
    from spindle.calls.journal import Journal
    from spindle.domain.doubt import InDoubt
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.run import Begun
    from spindle.domain.source import SourceConfig
    from spindle.domain.tool import Tool

CONFIRMED = "It was done, as a person has confirmed. What it returned is not known."


def leaves_doubt(tool: Tool, config: SourceConfig) -> bool:
    """True if nobody could know, after a fault during the call, what to do about it: it must be noted before
    it is sent."""
    return not config.is_repeatable(tool.spec) and config.when_in_doubt(tool.local_name) != "repeat"


def settled(
    tool: Tool, config: SourceConfig, begun: Begun, arguments: JsonObject, journal: Journal, *, keyed: bool
) -> Result | None:
    """Decides about a call that was begun before: returns None if it may be made again, or the result that a
    person has confirmed. Raises ApprovalRequired until somebody has decided, and InDoubtError if it is
    neither made again nor known to be done. `arguments` are shown to people."""
    how = config.when_in_doubt(tool.local_name)
    if config.is_repeatable(tool.spec) or (keyed and begun.keyed):
        how = "repeat"
    about = {"tool": tool.name, "arguments": arguments}
    said = decided(tool.name, how, begun, about, journal, source=tool.source, tool=tool.name)
    if said is None:
        return None
    return told(said["result"]) if "result" in said else Result.of_text(CONFIRMED)


def told(value: Any) -> Result:
    """Returns the result of a call as a person told it: a text, or structured data."""
    return Result.of_text(value) if isinstance(value, str) else Result.of_value(value)


def decided(
    what: str, how: InDoubt, begun: Begun, about: JsonObject, journal: Journal, *, source: str, tool: str
) -> JsonObject | None:
    """Decides about work that was begun before: returns None if it may be done again, or the word of a person
    that it was done, maybe with the `result`. Raises as `settled` does."""
    if how == "repeat":
        return None
    if how == "fail":
        raise _unknown(what, "it was not repeated")
    in_doubt = {"begun_at": begun.at, "process": begun.process}
    reply = journal.ask(
        ApprovalRequired(
            f"{what} was begun and may have been done, but how it ended is not known: do it again?",
            source=source,
            tool=tool,
            details={**about, "in_doubt": in_doubt},
        )
    )
    if reply.refused is not None:
        reason = f": {reply.refused}" if reply.refused else ""
        raise _unknown(what, f"a person decided not to repeat it{reason}")
    return reply.answer if reply.answer.get("done") else None


def _unknown(what: str, decision: str) -> InDoubtError:
    return InDoubtError(
        f"{what} was begun and may have been done or not, since how it ended is not known; {decision}",
        hint="look if it was done before you do it again",
    )
