"""The state that a client of 2026-07-28 brings back with its answers to a call that waits for them: which
process the call waits in and, in case that is gone, all that was asked and answered so far."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any, NamedTuple

from spindle.auth.details import MARK
from spindle.domain.json_schema import JsonObject, canonical, from_json, to_json
from spindle.errors import StoreError

if TYPE_CHECKING:
    from spindle.auth.details import DetailSealer
    from spindle.domain.identity import Principal

PREFIX = "spindle-call:"
MAX_STATE = 64 * 1024
"""Bytes of a state. One that would be larger leaves out what was answered: its call ends with its process."""
_DIFFERS = frozenset({"_meta", "elicitationId", "task"})
"""The fields of a question that are others each time it is asked."""

Answered = list[tuple[str, JsonObject]]
"""Marks of questions, each with its answer, in the order in which they were asked."""


class SuspendedState(NamedTuple):
    """Says where a call waits, and how it can be begun again."""

    process: str
    token: str
    """The name of the call in its process."""
    key: str
    """A mark of all that the client must repeat."""
    at: float
    asked: dict[str, str]
    """The marks of the questions that are open, by their names."""
    answered: Answered | None
    """None if it is too long to be carried, or the call must not be begun again."""

    def given(self, answers: JsonObject) -> Answered | None:
        """All answers there are with those that the client has brought now."""
        if self.answered is None:
            return None
        now = [(mark, answers[name]) for name, mark in self.asked.items() if name in answers]
        return [*self.answered, *now]

    def sealed(self, sealer: DetailSealer, principal: Principal) -> str:
        packed = to_json([*self])
        if len(packed) > MAX_STATE:
            packed = to_json([*self._replace(answered=None)])
        return PREFIX + urlsafe_b64encode(sealer.seal(packed, _place(principal))).rstrip(b"=").decode()


def opened(state: str, sealer: DetailSealer, principal: Principal) -> SuspendedState | None:
    """The state that was given to this principal; None if it is none."""
    text = state.removeprefix(PREFIX)
    if len(text) > 2 * MAX_STATE:
        return None
    try:
        sealed = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        found: Any = from_json(sealer.open(sealed, _place(principal))) if sealed[:1] == MARK else None
    except (ValueError, StoreError):
        return None
    return SuspendedState(*found) if found is not None else None


def mark_of_question(method: str, params: JsonObject | None) -> str:
    """The same for a question that is asked again."""
    kept = {key: value for key, value in (params or {}).items() if key not in _DIFFERS}
    return hashlib.sha256(canonical({"method": method, "params": kept})).hexdigest()[:32]


def mark_of_call(key: tuple[str, bytes]) -> str:
    """The same for a request that its client repeats."""
    return hashlib.sha256(key[0].encode() + b"\0" + key[1]).hexdigest()[:32]


def _place(principal: Principal) -> str:
    return f"suspended {principal.id}"
