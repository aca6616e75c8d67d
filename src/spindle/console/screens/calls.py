"""The history of calls, filtered, and one call in full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from spindle.console.call_lines import CallLine, call_line, shown_json
from spindle.console.choices import Choice
from spindle.console.screen import Look, Screen
from spindle.domain.json_schema import is_object
from spindle.errors import NotFoundError
from spindle.ports.store import CallFilter

if TYPE_CHECKING:
    from spindle.domain.call import CallRecord

PAGE_SIZE: Final = 50
SPANS: Final = {"hour": 3600.0, "day": 86400.0, "week": 7 * 86400.0}
SLOW: Final = {"1 s": 1.0, "10 s": 10.0, "1 min": 60.0}
OUTCOMES: Final = (
    "ok",
    "cached",
    "failed",
    "tool",
    "timeout",
    "connection",
    "invalid_arguments",
    "permission",
)


@dataclass(frozen=True, slots=True)
class CallPage:
    """A page of the history, the newest first."""

    calls: Sequence[CallLine]
    older: str | None
    """The key after which the next page begins."""
    outcomes: Sequence[Choice]
    spans: Sequence[Choice]
    slow: Sequence[Choice]
    everybody: bool
    """True if calls of all principals are shown."""


async def calls(look: Look) -> CallPage:
    """Returns the calls that fit the address: `tool`, `outcome`, `who`, `since`, `slower`, `before`."""
    asked = look.query
    span = SPANS.get(asked.get("since", ""))
    where = CallFilter(
        source=asked.get("source") or None,
        principal=look.whose or asked.get("who") or None,
        since=None if span is None else look.now - span,
        slower=SLOW.get(asked.get("slower", "")),
        before=asked.get("before") or None,
    )
    found = await look.app.store.calls(
        limit=PAGE_SIZE + 1,
        tool=asked.get("tool") or None,
        outcome=asked.get("outcome") or None,
        where=where,
    )
    page = found[:PAGE_SIZE]
    return CallPage(
        [call_line(record) for record in page],
        page[-1].key if len(found) > PAGE_SIZE else None,
        _named(OUTCOMES),
        _named(SPANS),
        _named(SLOW),
        look.whose is None,
    )


def _named(values: Mapping[str, float] | Sequence[str]) -> list[Choice]:
    return [Choice(value) for value in values]


@dataclass(frozen=True, slots=True)
class CallView:
    """One call."""

    line: CallLine
    source: str
    attempts: int
    arguments: str
    error: Mapping[str, Any]
    traceback: str
    result: str
    parent: str | None
    run: str | None
    trace: str | None
    sees_tool: bool


async def call(look: Look) -> CallView:
    """Returns a call by its key. One of somebody else's is not there."""
    key = look.named["key"]
    record = await look.app.store.call(key)
    if record is None or look.whose not in (None, record.principal):
        raise NotFoundError(f"there is no call {key!r}", hint="it may be older than what is kept")
    error = dict(record.error or {})
    failure = error.pop("failure", None)
    traceback = str(failure.get("traceback", "")) if is_object(failure) and look.principal.admin else ""
    return CallView(
        call_line(record),
        record.source,
        record.attempts,
        shown_json(record.arguments),
        error,
        traceback,
        _result(record),
        record.parent,
        record.run,
        record.trace,
        look.sees(record.tool),
    )


def _result(record: CallRecord) -> str:
    kept = record.result
    if not kept:
        return ""
    if kept.get("structured") is not None:
        return shown_json(kept["structured"])
    texts = [
        block["text"] if block.get("text") else f"[{block['type']} {block.get('mime_type') or ''}]"
        for block in kept["content"]
    ]
    return "\n".join(texts)


SCREENS: Final = (
    Screen("/calls", "calls.html", calls, "calls"),
    Screen("/calls/{key}", "call.html", call, "calls"),
)
