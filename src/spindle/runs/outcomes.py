"""The outcomes of runs, and the form in which outcomes of steps are recorded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spindle import errors
from spindle.domain.call import Result
from spindle.domain.records import quick_dataclass
from spindle.errors import NotFoundError, ServerError, SpindleError
from spindle.remedies import Remedy

if TYPE_CHECKING:
    from spindle.auth.encryption import Sealer
    from spindle.domain.identity import Principal
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.run import Pause, PauseKind
    from spindle.ports.store import RunStore


@dataclass(frozen=True, slots=True)
class OpenPause:
    """A run waiting for a person, with all that the person needs to see.

    `details` holds for `consent` the `url`, `provider` and `scopes`; for `approval` the `tool` and its exact
    `arguments`; for `input` the `schema` of the answer. An approval with `in_doubt` is about a call that may
    have been done: when it was `begun_at`, and by which `process`. Its `arguments` are masked.
    """

    token: str
    run_id: str
    kind: PauseKind
    message: str
    principal: Principal
    created_at: float
    source: str | None = None
    tool: str | None = None
    expires_at: float | None = None
    details: JsonObject = field(default_factory=dict[str, Any])

    def to_dict(self) -> JsonObject:
        """Returns the pause as JSON."""
        fields: JsonObject = {
            "token": self.token,
            "run_id": self.run_id,
            "kind": self.kind,
            "message": self.message,
            "principal": self.principal.id,
            "source": self.source,
            "tool": self.tool,
            "created_at": self.created_at,
            "expires_at": self.expires_at,
            "details": self.details,
        }
        return {key: value for key, value in fields.items() if value is not None}


@quick_dataclass(frozen=True, slots=True)
class Finished:
    """The run is done. The result may report an error of the tool's own (`is_error`)."""

    run_id: str
    result: Result


@dataclass(frozen=True, slots=True)
class Paused:
    """The run waits for people; each pause is answered by its token."""

    run_id: str
    pauses: tuple[OpenPause, ...]


@dataclass(frozen=True, slots=True)
class Continuing:
    """The answer was taken. Another process is executing the run, and continues it."""

    run_id: str


Outcome = Finished | Paused | Continuing


def open_content(sealer: Sealer, pause: Pause) -> JsonObject:
    """Returns the content of a pause: `message` and `details` for the person, `state` for the one who
    asked."""
    assert pause.sealed is not None
    return sealer.open(pause.sealed, f"pause:{pause.token}")


def opened(sealer: Sealer, pause: Pause) -> OpenPause:
    """Returns the pause with all that its person needs to see."""
    content = open_content(sealer, pause)
    expires_at = content["expires_at"] if pause.kind == "consent" else pause.expires_at
    return OpenPause(
        pause.token, pause.run, pause.kind, content["message"], pause.principal, pause.created_at,
        pause.source, pause.tool, expires_at, content["details"],
    )  # fmt: skip


def written(outcome: Result | SpindleError) -> JsonObject:
    """Returns a result or an error as JSON, with everything that `read` needs to give the same again."""
    if isinstance(outcome, Result):
        result = outcome.to_dict()
        result["has_structured"] = outcome.has_structured
        if outcome.action is not None:
            result["action"] = outcome.action
        if outcome.changed is not None:
            result["changed"] = outcome.changed
        return {"result": result}
    fields = {
        "hint": None if outcome.remedy else outcome.hint,
        "remedy": outcome.remedy.to_dict() if outcome.remedy else None,
        "source": outcome.source,
        "tool": outcome.tool,
        "status": outcome.status,
        "retry_after": outcome.retry_after,
        "sent": outcome.sent,
        "answered": outcome.answered,
        "details": outcome.details,
    }
    return {
        "error": {
            "type": type(outcome).__name__,
            "message": outcome.message,
            "retryable": outcome.retryable,
            **fields,
        }
    }


def read(outcome: JsonObject) -> Result:
    """Returns the recorded result; raises the error if it was one."""
    if "result" in outcome:
        return Result.from_dict(outcome["result"])
    fields = dict(outcome["error"])
    kind = getattr(errors, fields.pop("type"), None)
    retryable, message = fields.pop("retryable"), fields.pop("message")
    fields["remedy"] = Remedy.from_dict(fields.get("remedy"))
    # One that an extension made for itself comes back as the nearest that everybody knows.
    known = kind if isinstance(kind, type) and issubclass(kind, SpindleError) else ServerError
    error = known(message, **fields)
    error.retryable = retryable
    raise error


async def outcome_of(store: RunStore, sealer: Sealer, id: str) -> Result:
    """Returns the result of a run that has ended; raises the error if it failed."""
    for event in reversed(await store.history(id, "ended")):
        if event.sealed is not None:
            return read(sealer.open(event.sealed, f"run:{id}:ended"))
    raise NotFoundError(f"how run {id} ended was not recorded")
