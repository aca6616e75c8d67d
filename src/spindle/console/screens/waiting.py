"""The screen of all that waits for whoever looks: approvals, questions and consents, and answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from spindle.console.call_lines import is_editable, shown_json
from spindle.console.screen import Look, Screen
from spindle.errors import NotFoundError
from spindle.serving.answering import answered_for, find_pause, may_answer, waiting_for

if TYPE_CHECKING:
    from spindle.domain.json_schema import JsonObject
    from spindle.runs.answered import Answered, Decision
    from spindle.runs.outcomes import OpenPause

LISTED: Final = 200
ANSWERED: Final = 30

KINDS: Final = {"approval": "Approval", "input": "Question", "consent": "Consent"}
DECISIONS: Final[dict[Decision, tuple[str, str]]] = {
    "approved": ("good", "approved"),
    "changed": ("good", "approved with changes"),
    "done": ("good", "noted as done"),
    "refused": ("bad", "refused"),
    "answered": ("good", "answered"),
}
"""The colour and the words of what was decided."""


@dataclass(frozen=True, slots=True)
class WaitingLine:
    """One thing that waits, or that was answered."""

    token: str
    kind: str
    message: str
    tool: str | None
    asker: str
    at: float
    mine: bool = True
    """False if somebody else has to answer it."""
    colour: str = ""
    word: str = ""
    by: str = ""
    arguments: str = ""
    """The beginning of those of a call to approve."""


@dataclass(frozen=True, slots=True)
class PauseView:
    """One pause with all that its person needs to decide."""

    pause: OpenPause
    kind: str
    waits: bool
    expired: bool
    mine: bool
    answered: Answered | None
    colour: str
    word: str
    run_status: str
    arguments: Any = None
    """The exact arguments of the call to approve; None if there are none to edit."""
    arguments_schema: JsonObject | None = None
    """None if there are none to edit, or too many."""
    shown: tuple[tuple[str, Any], ...] = ()
    """Further details, by name."""
    schema: JsonObject | None = None
    """The schema of the answer to a question."""
    in_doubt: bool = False

    def may_consent(self, principal: str) -> bool:
        """True if this is a consent that only this principal can give."""
        return self.pause.source is not None and self.pause.principal.id == principal


@dataclass(frozen=True, slots=True)
class WaitingPage:
    """The list, and the pause that was chosen."""

    waiting: Sequence[WaitingLine]
    more: int
    answered: Sequence[WaitingLine]
    chosen: PauseView | None = None

    @property
    def mine(self) -> int:
        """The number of things that whoever looks can answer."""
        return sum(line.mine for line in self.waiting)


async def waiting(look: Look) -> WaitingPage:
    """Returns what waits, the oldest first, and what was answered, the newest first."""
    pauses = await waiting_for(look.app, look.person)
    lines = [
        WaitingLine(
            pause.token,
            KINDS.get(pause.kind, pause.kind),
            pause.message,
            pause.tool or pause.source,
            pause.principal.id,
            pause.created_at,
            may_answer(look.app, pause, look.person),
            arguments=shown_json(pause.details["arguments"], indent=None)[:200]
            if pause.details.get("arguments")
            else "",
        )
        for pause in pauses[:LISTED]
    ]
    answered = [
        WaitingLine(
            pause.token,
            KINDS.get(pause.kind, pause.kind),
            pause.message,
            pause.tool or pause.source,
            pause.principal.id,
            said.at or pause.created_at,
            True,
            *DECISIONS[said.decision],
            said.by,
        )
        for pause, said in await answered_for(look.app, look.person, ANSWERED)
    ]
    return WaitingPage(lines, len(pauses) - len(lines), answered)


async def one(look: Look) -> WaitingPage:
    """Returns the same with one pause in full."""
    page = await waiting(look)
    pause, said, waits = await find_pause(look.app, look.named["token"], look.person)
    run = await look.app.store.run(pause.run_id)
    expired = waits and pause.expires_at is not None and pause.expires_at <= look.now
    colour, word = DECISIONS[said.decision] if said is not None else ("muted", "no longer asked")
    details = pause.details
    in_doubt = "in_doubt" in details
    arguments = details.get("arguments") if pause.kind == "approval" and not in_doubt else None
    chosen = PauseView(
        pause,
        KINDS.get(pause.kind, pause.kind),
        waits and not expired,
        expired,
        may_answer(look.app, pause, look.person),
        said,
        colour,
        word,
        run.status if run is not None else "gone",
        arguments,
        await _schema_of(look, details) if arguments is not None and is_editable(arguments) else None,
        tuple((name, value) for name, value in details.items() if name not in _ELSEWHERE),
        details.get("schema") if pause.kind == "input" else None,
        in_doubt,
    )
    return WaitingPage(page.waiting, page.more, page.answered, chosen)


_ELSEWHERE: Final = frozenset({
    "tool", "arguments", "schema", "url", "questions", "visit", "approvers", "provider", "scopes",
})  # fmt: skip
"""Details that have a place of their own, or that are of no use to a person."""


async def _schema_of(look: Look, details: JsonObject) -> JsonObject:
    """Returns the schema of the arguments, for their fields. Whoever approves may edit what they see here,
    also of a tool that they may not call."""
    try:
        return (await look.app.show(str(details.get("tool")))).spec.usable_input
    except NotFoundError:
        return {"type": "object"}


SCREENS: Final = (
    Screen("/waiting", "waiting.html", waiting, "waiting"),
    Screen("/waiting/{token}", "waiting.html", one, "waiting"),
)
