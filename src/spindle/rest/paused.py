"""Calls that wait: answered with the id of their run, and looked after at `GET /runs/ID`.

A flow that waits for a time, an event, a webhook or a person is stored, and goes on when that has come.
Whoever made the call, and nobody else, asks for the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spindle.code_mode.workspace import KIND as CODE
from spindle.domain.json_schema import JsonObject, to_json
from spindle.errors import AuthorizationRequired, NotFoundError, ServerError
from spindle.listening.response import Response
from spindle.rest.forms import JSON
from spindle.runs.outcomes import Finished, Paused

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.domain.call import Result
    from spindle.domain.identity import Principal
    from spindle.domain.run import Run
    from spindle.runs.outcomes import OpenPause, Outcome

PATH = "/runs"
ASYNC = "respond-async"
"""The preference of a caller who does not wait for the result (RFC 7240)."""
OPEN = ("queued", "running", "paused")
ASK_AGAIN = 2
"""Seconds after which to ask again."""
_KINDS = ("call", CODE)
"""Runs whose results their callers ask for; the program of an MCP client may have waited for a person."""
_FOR_CALLERS = ("url", "webhook", "until", "event", "schema")
"""The details of a pause that its caller can use."""


PAUSED_SCHEMA: JsonObject = {
    "type": "object",
    "required": ["status", "category", "message", "run", "waits_for"],
    "properties": {
        "status": {"const": 202},
        "category": {"enum": ["paused", "queued", "running"]},
        "message": {"type": "string"},
        "hint": {"type": "string"},
        "run": {"type": "string"},
        "waits_for": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["kind", "message"],
                "properties": {
                    "kind": {"type": "string", "description": "wait, approval, input or consent"},
                    "message": {"type": "string"},
                    "webhook": {"type": "string", "description": "The path that lets it go on."},
                    "until": {"type": "string"},
                    "url": {"type": "string", "description": "Where to give consent."},
                },
            },
        },
    },
}
"""The schema of the answer to a call that waits."""


class StoredCall(Exception):  # noqa: N818 - an answer, not a mistake
    """A call that became a run, and waits."""

    def __init__(
        self, run: str, pauses: tuple[OpenPause, ...] = (), *, is_queued: bool = False, applied: bool = False
    ) -> None:
        """`applied`: the caller has asked not to wait, and so it does not."""
        super().__init__(f"the call waits in run {run}")
        self.run = run
        self.pauses = pauses
        self.is_queued = is_queued
        self._applied = applied

    @property
    def body(self) -> JsonObject:
        """The answer to the caller, as JSON."""
        waits = [
            {
                "kind": pause.kind,
                "message": pause.message,
                **{name: pause.details[name] for name in _FOR_CALLERS if name in pause.details},
            }
            for pause in self.pauses
        ]
        at_rest = "the call waits for its turn" if self.is_queued else "the call is at work"
        message = "; ".join(pause.message for pause in self.pauses) or at_rest
        return {
            "status": 202,
            "category": "paused" if self.pauses else "queued" if self.is_queued else "running",
            "message": message,
            "hint": f"GET {PATH}/{self.run} has the result when it is there",
            "run": self.run,
            "waits_for": waits,
        }

    def response(self) -> Response:
        """The answer: 202, with the place where to look."""
        headers = {"Location": f"{PATH}/{self.run}", "Retry-After": str(ASK_AGAIN)}
        if self._applied:
            headers["Preference-Applied"] = ASYNC
        return Response(to_json(self.body, default=str), 202, headers, JSON)


async def result_of(spindle: Spindle, outcome: Outcome) -> Result:
    """Returns the result of a call that has ended. Raises StoredCall where it waits, and
    AuthorizationRequired where only its caller's consent is missing: the call is made again then."""
    if isinstance(outcome, Finished):
        return outcome.result
    if not isinstance(outcome, Paused):
        raise ServerError("another process goes on with this call", retryable=True)
    consents = [pause for pause in outcome.pauses if pause.kind == "consent"]
    run = await spindle.store.run(outcome.run_id)
    if consents and run is not None and not await _has_steps(spindle, run):
        await spindle.runner.cancel(run, "its caller makes the call again after the consent")
        pause = consents[0]
        raise AuthorizationRequired(pause.message, source=pause.source, details=pause.details)
    raise StoredCall(outcome.run_id, outcome.pauses)


async def look_at(spindle: Spindle, run_id: str, principal: Principal) -> Result:
    """Returns the result of a caller's run. Raises StoredCall while there is none, NotFoundError for one that
    was cancelled, and for the run of another."""
    run = await _own(spindle, run_id, principal)
    if run.status in OPEN:
        is_queued = run.status == "queued"
        raise StoredCall(run.id, tuple(await spindle.pauses(run=run.id)), is_queued=is_queued)
    if run.status == "cancelled":
        raise NotFoundError(f"run {run.id} was cancelled", hint="make the call again")
    return await spindle.runner.outcome(run)


async def _own(spindle: Spindle, run_id: str, principal: Principal) -> Run:
    run = await spindle.store.run(run_id) if run_id else None
    # The store also finds runs by the beginning of their id.
    if run is None or run.id != run_id or run.principal.id != principal.id or run.kind not in _KINDS:
        raise NotFoundError(f"there is no run {run_id!r}")
    return run


async def _has_steps(spindle: Spindle, run: Run) -> bool:
    return (await spindle.show(run.name)).kind in ("agents", "flows")
