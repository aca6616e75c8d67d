"""A call on its way: all that sending it takes, and what its record needs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from spindle.calls.record import fit_to_store, kept_result
from spindle.calls.reported import refined
from spindle.domain.call import CallRecord, new_id
from spindle.errors import CallTimeoutError, ServerError, SpindleError
from spindle.telemetry import tracing

if TYPE_CHECKING:
    from spindle.calls.host import PatientPeer
    from spindle.calls.journal import Journal
    from spindle.calls.limits import Limit
    from spindle.calls.options import CallOptions
    from spindle.calls.prepared import PreparedTool
    from spindle.domain.call import Call, Result
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.tool import Tool


_NONE: frozenset[str] = frozenset()


class RunningCall:
    """The facts about a running call. Those of sending it are there once it has passed every check."""

    # No defaults of the class: Python 3.11 finds one ten times slower than an attribute of its own.
    __slots__ = (
        "_began", "attempts", "call", "has_changed", "has_renewed", "is_large", "journal", "key", "limits",
        "parent", "peer", "prepared", "remark", "secrets", "stage", "started_at", "timeout", "tool", "waited",
    )  # fmt: skip

    started_at: float
    parent: str | None
    """The key of the call during which it was made."""
    prepared: PreparedTool
    call: Call
    limits: Sequence[Limit]
    timeout: float
    journal: Journal | None
    """The run in which it must be noted before it is sent."""
    peer: PatientPeer | None
    """The call's own, for which its time limit stands still."""

    def __init__(self) -> None:
        self.key = new_id()
        self._began = time.perf_counter()
        self.tool: Tool | None = None
        self.attempts = 0
        self.waited = 0.0
        """Seconds that the source had the call wait since a try that was not refused."""
        self.secrets = _NONE
        self.has_changed = False
        """True if a person replaced the arguments."""
        self.has_renewed = False
        """True if the source refused the credential, and got another one."""
        self.is_large = False
        """True if its arguments are looked through beside the event loop, because that takes long."""
        self.remark: JsonObject | None = None
        """A remark on something odd about a call that succeeded."""
        self.stage = ""
        """The part of the path that has begun last."""

    def mark(self, journal: Journal, result: Result | None) -> None:
        """Notes with the run if the call brought back words that may be anybody's, be it in an error."""
        if (self.attempts or result is not None) and self.prepared.is_untrusted:
            journal.mark_untrusted()

    def record(
        self,
        shown: JsonObject,
        given: JsonObject,
        options: CallOptions,
        outcome: str,
        problem: JsonObject | None,
        result: Result | None,
        place: Journal | None,
    ) -> CallRecord:
        """The record of the call, which has found its tool and ended now. `shown` is what it was given,
        without secrets. `place` is its place in a run."""
        tool = self.tool
        assert tool is not None
        told = problem or self.remark
        kept = result if options.keep_result else None
        return CallRecord(
            self.key, tool.name, tool.source, options.principal.id, shown,
            outcome, self.started_at, time.perf_counter() - self._began, self.attempts,
            fit_to_store(told, self.secrets) if told is not None else None, self.parent,
            None if kept is None else kept_result(kept, tool, given, self.secrets),
            place.run if place is not None else None,
            tracing.trace_id() if tracing.active is not None else None,
        )  # fmt: skip

    def fail(self, error: Exception, seconds: float | None) -> NoReturn:
        """Raises what the error of an attempt means to its caller. `seconds`: the time that it had, if that
        is over."""
        tool = self.prepared.tool
        if isinstance(error, SpindleError):
            raise refined(error, tool, self.prepared.config) from error.__cause__
        if isinstance(error, TimeoutError) and seconds is not None:
            raise self._timed_out(seconds) from None
        # A source is anybody's code; what it should have mapped itself is mapped here.
        raise ServerError(
            f"the source of {tool.name} failed: {type(error).__name__}: {error}",
            hint="tell the author of the source",
        ) from error

    def _timed_out(self, seconds: float) -> CallTimeoutError:
        tool, waited = self.prepared.tool, self.timeout - seconds
        said = f"{self.timeout:.6g} s"
        if waited > 0.05:
            said = f"{seconds:.6g} s, having waited {waited:.3g} s for its turn"
        return CallTimeoutError(
            f"{tool.name} did not answer within {said}",
            hint=f"raise sources.{tool.source}.timeout, or the call's own, if it needs longer",
        )


class TracedCall(RunningCall):
    """A running call that tells each part of its path when it begins."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        super().__init__()

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "stage" and value:
            self._tell(value)
