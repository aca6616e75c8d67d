"""Leaves a server alone after repeated failures, and lets exactly one call find out if it is back.

A failure counts where it belongs. That a server cannot be reached is everybody's, and counts for all who call
it. Everything else happened to one credential, or one holder of a session, in its process or its session, and
counts for calls with that. Only if it happens to several in a row at a server that they share, and nobody is
answered in between, is the server taken to be unwell for all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from spindle.domain.bounded import BoundedMap
from spindle.domain.records import quick_dataclass
from spindle.errors import (
    BreakerOpenError,
    BusyError,
    ConnectionFailedError,
    ResultTooLargeError,
    SpindleError,
    StoreError,
)
from spindle.remedies import Remedy

if TYPE_CHECKING:
    from types import TracebackType

    from spindle.domain.source import BreakerConfig

# What says that the source is unwell. Bad arguments, refusals, too much of an answer and a caller's
# change of mind do not.
FAILURES = frozenset({"connection", "timeout", "server"})

NOBODY_THERE = frozenset({502, 503})
"""Statuses with which a gateway says that the server behind it cannot be reached."""

State = Literal["closed", "half-open", "open"]


class Breakers:
    """The breakers of a source, by server and by credential there. Only what has failed has one."""

    def __init__(self, source: str, config: BreakerConfig, now: Callable[[], float]) -> None:
        self._source = source
        self._config = config
        self._now = now
        self._servers: BoundedMap[str, _Breaker] = BoundedMap()
        self._own: BoundedMap[tuple[str, str], _Breaker] = BoundedMap()
        self._admitted = 0

    def check(self, server: str | None, credential: str) -> None:
        """Raises BreakerOpenError if a call would not be admitted. `server` is None where each credential has
        one of its own; `credential` is the key of the call's."""
        if self._own or self._servers:
            for breaker in self._of(server, credential):
                breaker.check(self._source)

    def enter(self, server: str | None, credential: str) -> Admission:
        """Admits a call, or raises. While a probe runs, no other call is admitted."""
        self._admitted += 1
        if not self._own and not self._servers:  # as nearly always
            return Admission(self, server, credential, self._admitted, ())
        found = self._of(server, credential)
        for breaker in found:
            breaker.check(self._source)
        probes = tuple(breaker for breaker in found if breaker.take_probe())
        return Admission(self, server, credential, self._admitted, probes)

    def state(self, server: str | None = "", credential: str = "") -> State:
        """The state that a call would find."""
        states = {breaker.state for breaker in self._of(server, credential)}
        if "open" in states:
            return "open"
        return "half-open" if "half-open" in states else "closed"

    def succeeded(self, admission: Admission) -> None:
        """The source answered, so it is there."""
        if not self._own and not self._servers:
            return
        # A call that began before it opened says nothing about now.
        server, own = admission.server, (admission.server or "", admission.credential)
        if server is not None and self._closes(self._servers.get(server), admission):
            del self._servers[server]
        if self._closes(self._own.get(own), admission):
            del self._own[own]

    def failed(self, error: BaseException, admission: Admission) -> None:
        """An attempt ended in an error, or was cancelled."""
        for probe in admission.probes:
            probe.probing = False
        if not isinstance(error, SpindleError) or isinstance(
            error, (BusyError, BreakerOpenError, StoreError)
        ):
            return  # the source was not asked
        if error.source not in (None, self._source):
            return  # another source failed, which a tool of this one called
        if not _is_failure(error):
            self.succeeded(admission)
            return
        server, credential = admission.server, admission.credential
        where = f" at {server}" if server else ""
        own = self._own.setdefault(
            (server or "", credential), self._made(where + " with this credential" if credential else where)
        )
        own.count(error.message, admission, self._admitted)
        if server is None:
            return
        shared = self._servers.setdefault(server, self._made(where))
        if error.status in NOBODY_THERE or (isinstance(error, ConnectionFailedError) and error.unreachable):
            shared.count(error.message, admission, self._admitted)
        else:
            shared.suspect(credential)

    def _of(self, server: str | None, credential: str) -> list[_Breaker]:
        shared = self._servers.get(server) if server is not None else None
        own = self._own.get((server or "", credential))
        return [breaker for breaker in (shared, own) if breaker is not None]

    def _closes(self, breaker: _Breaker | None, admission: Admission) -> bool:
        return breaker is not None and (breaker in admission.probes or breaker.state == "closed")

    def _made(self, name: str) -> _Breaker:
        return _Breaker(name, self._config, self._now)


@quick_dataclass(frozen=True, slots=True)
class Admission:
    """A call's way in, to be entered around the attempt."""

    breakers: Breakers
    server: str | None
    credential: str
    number: int
    """Counts the calls that were admitted."""
    probes: tuple[_Breaker, ...]
    """The half-open breakers whose one call this is."""

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.breakers.succeeded(self)
        else:
            self.breakers.failed(error, self)


class _Breaker:
    """Counts the failures in a row of one server, or of one credential there."""

    def __init__(self, name: str, config: BreakerConfig, now: Callable[[], float]) -> None:
        """`name` continues a sentence that begins with the source."""
        self._name = name
        self._limit = config.failures
        self._cooldown = config.cooldown
        self._now = now
        self._failures = 0
        self._last = ""
        self._opened_at: float | None = None
        self._admitted_at_last_failure = 0
        self._suspicions: set[str] = set()
        self.probing = False

    @property
    def state(self) -> State:
        if self._opened_at is None:
            return "closed"
        return "half-open" if self._wait() <= 0 else "open"

    def check(self, source: str) -> None:
        """Raises BreakerOpenError if it is open, or half-open while its one call runs."""
        if self._opened_at is None:
            return
        wait = self._wait()
        if wait > 0 or self.probing:
            raise BreakerOpenError(
                f"{source!r}{self._name} failed {_times(self._failures)} and is not called"
                + (f" for another {wait:.1f} s" if wait > 0 else " while one call tries it again")
                + f"; the last failure: {self._last}",
                remedy=Remedy("doctor", source),
                source=source,
                retry_after=max(wait, 0.0),
                sent=False,
            )

    def take_probe(self) -> bool:
        """True for the one call of a half-open breaker."""
        self.probing = self._opened_at is not None
        return self.probing

    def count(self, reason: str, admission: Admission, admitted: int) -> None:
        """Counts a failure. `admitted` is the number of the newest call."""
        self._last = reason
        if admission.number <= self._admitted_at_last_failure:
            # One death of a server fails every call that it was serving: that is one failure, not many.
            return
        self._admitted_at_last_failure = admitted
        self._failures += 1
        if self in admission.probes or self._failures >= self._limit:
            self._opened_at = self._now()

    def suspect(self, credential: str) -> None:
        """Notes a failure that may be the credential's own. As many credentials as failures open it."""
        self._suspicions.add(credential)
        if len(self._suspicions) >= max(self._limit, 2):
            self._failures = len(self._suspicions)
            self._last = "calls with different credentials got no answer"
            self._suspicions.clear()
            self._opened_at = self._now()

    def _wait(self) -> float:
        assert self._opened_at is not None
        return self._opened_at + self._cooldown - self._now()


def _is_failure(error: SpindleError) -> bool:
    return error.category in FAILURES and not error.answered and not isinstance(error, ResultTooLargeError)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times in a row"
