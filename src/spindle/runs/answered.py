"""The answers that people gave to pauses: what they decided, who, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from spindle.errors import ClientError, NotFoundError, SpindleError
from spindle.remedies import Remedy

if TYPE_CHECKING:
    from spindle.auth.encryption import Sealer
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.run import Pause, Run

Decision = Literal["approved", "changed", "done", "refused", "answered"]
"""`changed`: approved with other arguments. `done`: a call in doubt is said to have been done."""

OWNER: Final = "the owner"
_KNOWN_STATUSES: Final = ("running", "paused", "done", "failed")


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to one pause."""

    decision: Decision
    by: str
    at: float | None
    """None for answers of versions that did not write it down."""
    answer: Any = None
    """The value that was answered; of an approval, the arguments if they were changed."""
    reason: str = ""
    """Why it was refused."""

    def to_dict(self) -> JsonObject:
        """Returns the answer as JSON."""
        fields = {
            "decision": self.decision,
            "by": self.by,
            "at": self.at,
            "answer": self.answer,
            "reason": self.reason,
        }
        return {key: value for key, value in fields.items() if value not in (None, "")}


def answer_of(sealer: Sealer, pause: Pause) -> Answered | None:
    """Returns the answer to a pause. None: it has none, since it waits, was given up or was a consent."""
    if pause.answer is None:
        return None
    said = sealer.open(pause.answer, f"answer:{pause.token}")
    by, at = said.get("by", OWNER), said.get("at")
    if "answer" not in said:
        return Answered("refused", by, at, reason=said.get("refused") or "")
    answer = said["answer"]
    if pause.kind != "approval":
        return Answered("answered", by, at, answer)
    if "done" in answer:
        return Answered("done", by, at, answer.get("result"))
    changed = answer.get("arguments")
    return Answered("approved" if changed is None else "changed", by, at, changed)


_WORDS: Final[dict[Decision, str]] = {
    "approved": "who approved it",
    "changed": "who approved it with other arguments",
    "done": "who said that it was done",
    "refused": "who refused it",
    "answered": "who gave another answer",
}


def unanswerable(claim: str, pause: Pause, run: Run | None, said: Answered | None) -> SpindleError:
    """Returns the error for an answer that comes too late, or to nothing."""
    if claim == "unknown":
        return NotFoundError(f"there is no pause {pause.token!r}")
    if claim == "expired":
        return ClientError(f"the pause {pause.token} has expired", remedy=Remedy("resume_expired", pause.run))
    status = run.status if run else "gone"
    act = "other_pause" if status == "paused" else f"resume_{status}"
    known = status in _KNOWN_STATUSES
    by = f", by {said.by}, {_WORDS[said.decision]}" if said is not None else ", or is no longer asked"
    return ClientError(
        f"the pause {pause.token} was answered before{by}",
        hint=None if known else f"its run is {status}",
        remedy=Remedy(act, pause.run) if known else None,
    )
