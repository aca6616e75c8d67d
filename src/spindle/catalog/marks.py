"""The facts about each source that outlive one look at it: the settings that its stored tools stand for, and
those with which it failed or waited for a consent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from spindle.errors import NameConflictError, SpindleError, UntrustedError, from_description

if TYPE_CHECKING:
    from spindle.domain.json_schema import JsonObject
    from spindle.ports.store import SourceState

OPENLY = "~"
"""Ends the stored signature of a source whose tools were listed without the consent that its calls take."""


class SourceMarks:
    """By source, what came of asking it. A signature stands for the settings with which it was asked."""

    def __init__(self) -> None:
        self._listed: dict[str, str] = {}
        self._failed: dict[str, str] = {}
        self._refused: dict[str, str] = {}
        """Those that list their tools only to users who gave their consent."""
        self._untrusted: dict[str, str] = {}
        """Of those that may not be read for want of trust, the mark of trust at that time."""
        self.reasons: dict[str, JsonObject] = {}
        """Why they last could not be read, as data."""
        self.conflicts: dict[str, NameConflictError] = {}
        """Why their tools could not be taken: another source has one of the same name."""

    def read(self, states: Mapping[str, SourceState]) -> None:
        """Takes over what is stored."""
        self._listed = {
            name: state.signature for name, state in states.items() if state.synced_at is not None
        }

    def forget(self, name: str) -> None:
        """Drops all that is known of a source."""
        known = (self._listed, self._failed, self._refused, self._untrusted, self.reasons, self.conflicts)
        for facts in known:
            facts.pop(name, None)

    # --- what came of it

    def listed(self, name: str, mark: str) -> None:
        """Its tools are stored; `mark` is the signature that is stored with them."""
        self._listed[name] = mark
        for facts in (self._failed, self._untrusted, self.reasons, self.conflicts):
            facts.pop(name, None)

    def refused(self, name: str, signature: str, reason: JsonObject) -> None:
        """It wants the consent of whoever asks. For others it may be there."""
        self._refused[name] = signature
        self.reasons[name] = reason

    def failed(self, name: str, signature: str, error: SpindleError, trust_mark: str) -> None:
        """It could not be read, by anybody."""
        self._failed[name] = signature
        self.reasons[name] = error.to_dict()
        if isinstance(error, UntrustedError):
            self._untrusted[name] = trust_mark
        if isinstance(error, NameConflictError):
            self.conflicts[name] = error

    def try_again(self, name: str) -> None:
        """Forgets that it failed."""
        self._failed.pop(name, None)

    def is_untrusted(self, name: str) -> bool:
        """True if it failed for want of trust."""
        return name in self._untrusted

    def trusted(self, name: str, trust_mark: str) -> None:
        """Forgets that it failed for want of trust, once a person has given it."""
        if self._untrusted[name] != trust_mark:
            self._failed.pop(name, None)

    def reason(self, name: str) -> SpindleError:
        """Returns the error because of which its tools are not known."""
        unknown = {"category": "server", "message": f"{name!r} could not be asked for its tools"}
        return from_description(self.reasons.get(name, unknown)).about(source=name)

    # --- looking

    def is_listed(self, name: str, signature: str) -> bool:
        """True if the stored tools are those of these settings."""
        return self._listed.get(name, "").removesuffix(OPENLY) == signature

    def is_open(self, name: str, signature: str) -> bool:
        """True if they were listed without a consent."""
        return self._listed.get(name) == signature + OPENLY

    def has_failed(self, name: str, signature: str) -> bool:
        """True if it failed with these settings."""
        return self._failed.get(name) == signature

    def wants_consent(self, name: str, signature: str) -> bool:
        """True if it has refused to list its tools without a consent."""
        return self._refused.get(name) == signature
