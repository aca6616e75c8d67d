"""The secrets that a run knows: those it was given, and those it has read by name.

They are masked in all that is recorded or told of the run, also where they were written into other values.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any, Final

from spindle.calls.record import clean_json
from spindle.calls.secret_forms import MIN_SECRET
from spindle.domain.json_schema import is_array, is_object
from spindle.errors import FlowError

MAX_KNOWN: Final = 1000
"""Secrets of one run. All of them are looked for by their value, in all that is recorded."""


class KnownSecrets:
    """The secrets of one run."""

    def __init__(self, around: KnownSecrets | None = None) -> None:
        """`around`: the secrets of the run in which this one is a step. They are known here too, and those
        known here are masked there."""
        self.named: dict[str, str] = {}
        """By name, the secrets of the workspace that the run may read."""
        self.values: frozenset[str] = around.values if around is not None else frozenset()
        self._around = around
        self._stand_ins: dict[str, str] = dict(around._stand_ins) if around is not None else {}

    def add(self, values: Iterable[str], stands_for: str = "") -> None:
        """Takes note of secrets. `stands_for` identifies them in the run, such as by their name. Raises
        FlowError for too many, so that none is recorded unmasked."""
        fresh = {value for value in values if len(value) >= MIN_SECRET and value not in self.values}
        if not fresh:
            return
        if len(self.values) + len(fresh) > MAX_KNOWN:
            raise FlowError(
                f"the run has more than {MAX_KNOWN:,} secrets, the most that can be masked in its record",
                hint="do fewer items in one run, or read one secret by its name: ${secrets.NAME}",
            )
        self.values |= fresh
        if stands_for:
            self._stand_ins |= dict.fromkeys(fresh, stands_for)
        if self._around is not None:
            self._around.add(fresh)

    def add_named(self, name: str, value: str) -> None:
        """Takes note of a secret of the workspace."""
        self.named[name] = value
        self.add([value], f"secrets.{name}")

    def shown(self, value: Any) -> Any:
        """Returns a value as a run may give it away: a secret of the workspace is masked, while those that
        the caller gave are the caller's own."""
        return clean_json(value, frozenset(self.named.values())) if self.named else value

    def identified(self, value: Any) -> Any:
        """Returns the value with secrets replaced by what identifies them. Places of steps are made of it: a
        secret that is changed while a run waits leaves them where they were, and none can be guessed from
        a place."""
        return _replaced(value, sorted(self._stand_ins.items(), key=lambda item: -len(item[0])))


def _replaced(value: Any, stand_ins: list[tuple[str, str]]) -> Any:
    if isinstance(value, str):
        for secret, stands_for in stand_ins:
            value = value.replace(secret, f"\0{stands_for}\0")
        return value
    if is_object(value):
        return {key: _replaced(item, stand_ins) for key, item in value.items()}
    if is_array(value):
        return [_replaced(item, stand_ins) for item in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return next((f"\0{stands_for}\0" for secret, stands_for in stand_ins if secret == str(value)), value)
    return value


known_secrets: ContextVar[KnownSecrets | None] = ContextVar("spindle_secrets", default=None)
"""The secrets of the run that is executed in this context."""


def identified(value: Any) -> Any:
    """Returns a value with the secrets of this run replaced by what identifies them."""
    known = known_secrets.get()
    return value if known is None or not known.values else known.identified(value)


def with_known(secrets: frozenset[str]) -> frozenset[str]:
    """Returns these secrets and those that the run knows."""
    known = known_secrets.get()
    return secrets if known is None else secrets | known.values
