"""Leaves a source alone after repeated failures, and lets exactly one call find out if it is back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spindle.errors import BreakerOpenError, ResultTooLargeError, SpindleError
from spindle.remedies import Remedy

# What says that the source is unwell. Bad arguments, refusals, too much of an answer and a caller's
# change of mind do not.
FAILURES = frozenset({"connection", "timeout", "server"})


@dataclass(frozen=True, slots=True)
class Admission:
    """A call's way in. `number` counts admissions; the probe is the one call of a half-open breaker."""

    number: int
    probe: bool = False


class Breaker:
    """Stops calls to a source that failed repeatedly, and lets one call test if it works again."""

    def __init__(self, source: str, failures: int, cooldown: float, now: Callable[[], float]) -> None:
        self._source = source
        self._limit = failures
        self._cooldown = cooldown
        self._now = now
        self._failures = 0
        self._last = ""
        self._opened_at: float | None = None
        self._probing = False
        self._admitted = 0
        self._admitted_at_last_failure = 0

    @property
    def state(self) -> str:
        if self._opened_at is None:
            return "closed"
        return "half-open" if self._wait() <= 0 else "open"

    def enter(self) -> Admission:
        """Admit a call, or raise. While a probe runs, no other call is admitted."""
        if self._opened_at is None:
            return self._admit(probe=False)
        wait = self._wait()
        if wait > 0 or self._probing:
            raise BreakerOpenError(
                f"{self._source!r} failed {_times(self._failures)} and is not called"
                + (f" for another {wait:.1f} s" if wait > 0 else " while one call tries it again")
                + f"; the last failure: {self._last}",
                remedy=Remedy("doctor", self._source),
                source=self._source,
                retry_after=max(wait, 0.0),
                sent=False,
            )
        self._probing = True
        return self._admit(probe=True)

    def succeeded(self, admission: Admission) -> None:
        if admission.probe or self._opened_at is None:
            self._failures = 0
            self._opened_at = None
            self._probing = False

    def failed(self, error: BaseException, admission: Admission) -> None:
        """An attempt ended in an error, or was cancelled."""
        if admission.probe:
            self._probing = False
        if not isinstance(error, SpindleError):
            return
        if error.category not in FAILURES or isinstance(error, ResultTooLargeError):
            # The source answered, so it is there.
            self.succeeded(admission)
            return
        self._last = error.message
        if admission.number <= self._admitted_at_last_failure:
            # One death of a server fails every call that it was serving: that is one failure, not many.
            return
        self._admitted_at_last_failure = self._admitted
        self._failures += 1
        if admission.probe or self._failures >= self._limit:
            self._opened_at = self._now()

    def _admit(self, *, probe: bool) -> Admission:
        self._admitted += 1
        return Admission(self._admitted, probe)

    def _wait(self) -> float:
        assert self._opened_at is not None
        return self._opened_at + self._cooldown - self._now()


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times in a row"
