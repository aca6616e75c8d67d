"""Every error that Spindle raises, as one tree.

    SpindleError
    ├── ConfigurationError      a setting is wrong or missing                  configuration
    │   ├── NameConflictError   two tools claim one name
    │   └── LoopError           a workspace would be its own source
    ├── UntrustedError          the workspace was found, but nobody trusts it  trust
    ├── NotFoundError           no tool, source or record of that name         not_found
    ├── InvalidArgumentsError   the arguments do not fit the tool's schema     invalid_arguments
    ├── PermissionDeniedError   this principal may not do that                 permission
    ├── AuthError               the source refused the credential              auth
    ├── CallTimeoutError        no answer in time                              timeout
    ├── ConnectionFailedError   the source cannot be reached, or was lost      connection
    │   └── BreakerOpenError    not tried: the source failed too often
    ├── InDoubtError            it was begun, and nobody knows if it was done  in_doubt
    ├── RateLimitedError        the source asks to wait                        rate_limited
    │   └── BusyError           no place or turn came in time, or all are taken
    ├── ClientError             the source says that the request is wrong      client
    │   └── RunLostError        another process took the run over
    ├── ServerError             the source failed, or broke its protocol       server
    │   └── ResultTooLargeError the answer is over the size limit
    ├── ToolError               the tool ran and reported an error             tool
    ├── FlowError               a flow cannot be read, or cannot continue      flow
    ├── ModelError              a language model gave no usable answer         model
    ├── CancelledCallError      the caller cancelled the call                  cancelled
    ├── StoreError              the workspace's own state cannot be used       store
    │   └── StoreAwayError      it does not answer now
    └── TableError              a table does not hold tools that can be read   table

`Interruption` stands apart: a pause is not an error, so no handler for errors may catch it.

    Interruption
    ├── AuthorizationRequired   a user must give consent at a provider         consent
    ├── ApprovalRequired        a person must allow this very call             approval
    └── InputRequired           a person must answer a question                input
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Self, cast

from spindle.meanings import Meaning, is_reported, of_status
from spindle.remedies import REMOTE, REPORTED, Remedy, Surface
from spindle.remedies import did_you_mean as did_you_mean
from spindle.remedies import suggest as suggest

FOR_CALLERS = frozenset({"client", "error", "invalid_arguments", "not_found", "tool"})
"""The categories whose hints are for whoever made the call. Others are about what is configured here."""

MAX_MESSAGE = 100_000
"""Characters of a message. Many quote what somebody sent: an answer, the output of a program, a name."""

_CARRIED = ("source", "tool", "status", "retry_after", "details")


class SpindleError(Exception):
    """The base of every error that Spindle raises. `message` says what was wrong, `hint` what to do about
    it. Where that depends on the reader, `remedy` says it as data, and `hint_for` puts it into words."""

    category: ClassVar[str] = "error"
    retryable: bool = False
    """True if the same call may be made again: nothing was done, or doing it twice does no harm."""
    failure: Any = None
    """The `ToolFailure` of Python code of the workspace: where in it a tool or a node failed."""

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        remedy: Remedy | None = None,
        source: str | None = None,
        tool: str | None = None,
        status: int | None = None,
        retry_after: float | None = None,
        sent: bool = True,
        answered: bool = False,
        challenge: str | None = None,
        details: Any = None,
    ) -> None:
        if len(message) > MAX_MESSAGE:
            message = f"{message[: MAX_MESSAGE // 2]} … {message[-MAX_MESSAGE // 2 :]}"
        super().__init__(message)
        self.message = message
        self._hint = hint
        self.remedy = remedy if hint is None else None
        self.source = source
        self.tool = tool
        self.status = status
        self.retry_after = retry_after
        self.sent = sent
        """False when the request certainly never reached the source, so that sending again is safe."""
        self.answered = answered
        """True when the source itself reported the error in an answer: it is there, and well."""
        self.challenge = challenge
        """The WWW-Authenticate header of the source's refusal: the credential that it wants."""
        self.details = details

    @property
    def hint(self) -> str | None:
        """The way out, in the words of a Python program."""
        return self.remedy.words("python") if self.remedy is not None else self._hint

    @hint.setter
    def hint(self, hint: str | None) -> None:
        self._hint, self.remedy = hint, None

    @property
    def way_out(self) -> dict[str, Any]:
        """The hint or the remedy, as arguments of another error that takes its place."""
        return {"hint": self._hint, "remedy": self.remedy}

    def hint_for(self, surface: Surface) -> str | None:
        """Returns what to do about it, in the words of a surface. Models and HTTP clients are not told what
        only the person who runs this Spindle can do."""
        if self.remedy is not None:
            return self.remedy.words(surface)
        return None if surface in REMOTE and self.category not in FOR_CALLERS else self._hint

    def about(self, *, source: str | None = None, tool: str | None = None) -> Self:
        """Adds the source and tool of the error, unless they are already known, and returns it."""
        self.source = self.source or source
        self.tool = self.tool or tool
        return self

    @property
    def meaning(self) -> Meaning:
        """The same for a result that reports the error."""
        return Meaning(self.category, self.status, self.retry_after, self.retryable)

    def to_dict(self, surface: Surface = "python") -> dict[str, Any]:
        """Describes the error as JSON in the words of a surface, without empty fields."""
        remedy = None if self.remedy is None or surface in REMOTE else self.remedy.to_dict()
        fields: dict[str, Any] = {
            "category": self.category,
            "message": self.message,
            "hint": self.hint_for(surface),
            "remedy": remedy,
            "retryable": self.retryable,
        }
        fields |= {key: getattr(self, key) for key in _CARRIED}
        return {key: value for key, value in fields.items() if value is not None}


class ConfigurationError(SpindleError):
    """A setting is wrong or missing."""

    category = "configuration"


class NameConflictError(ConfigurationError):
    """Two tools claim one name; the message names both places."""


class LoopError(ConfigurationError):
    """A workspace would be its own source. `path` names the sources on the way, as far as it is known."""

    def __init__(self, message: str, *, path: Sequence[str] = (), **fields: Any) -> None:
        super().__init__(message, **fields)
        self.path = tuple(path)

    @classmethod
    def along(cls, path: Sequence[str]) -> Self:
        """The error for a circle that these sources make; without any, it closes here."""
        way = " → ".join(path)
        circle = f"{way} leads in a circle, back to a workspace that the request came through"
        own = "the request came through this workspace before, which cannot be its own source"
        hint = "remove one of the sources that make the circle, or set `enabled = false` in it"
        return cls(circle if path else own, path=path, hint=hint, details={"loop": [*path]})


class UntrustedError(SpindleError):
    """A workspace was found that nobody has said may run."""

    category = "trust"


class NotFoundError(SpindleError):
    """There is no tool, source or record of that name."""

    category = "not_found"


class InvalidArgumentsError(SpindleError):
    """The arguments do not fit the schema. `details` lists each problem as {"path": ..., "problem": ...}."""

    category = "invalid_arguments"


class PermissionDeniedError(SpindleError):
    """The principal may not do that."""

    category = "permission"


class AuthError(SpindleError):
    """The source refused the credential, or there is none."""

    category = "auth"


class CallTimeoutError(SpindleError):
    """The source did not answer in time."""

    category = "timeout"
    retryable = True


class ConnectionFailedError(SpindleError):
    """The source cannot be reached, or the connection to it was lost."""

    category = "connection"
    retryable = True

    def __init__(self, message: str, *, unreachable: bool = False, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.unreachable = unreachable
        """True when no connection to the server could be made, which concerns all who use it."""


class BreakerOpenError(ConnectionFailedError):
    """The source failed repeatedly, so it is not called for `retry_after` seconds."""


class InDoubtError(SpindleError):
    """The call was begun before a fault, may have been done, and was not made again."""

    category = "in_doubt"


class RateLimitedError(SpindleError):
    """The source asks us to wait before calling again."""

    category = "rate_limited"
    retryable = True


class BusyError(RateLimitedError):
    """There was no place for the call within its time, or too many wait. It was not sent; `retry_after` says
    when to try again."""


class ClientError(SpindleError):
    """The source says that the request is wrong."""

    category = "client"


class RunLostError(ClientError):
    """Another process took the run over, because this one gave no sign of life. It has ended its work."""


class ServerError(SpindleError):
    """The source failed, or broke its protocol."""

    category = "server"

    def __init__(self, message: str, *, retryable: bool = False, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.retryable = retryable


class ResultTooLargeError(ServerError):
    """The result was over the size limit and was dropped."""


class ToolError(SpindleError):
    """The tool itself reported an error. `details` holds the whole result as a dict."""

    category = "tool"


class FlowError(SpindleError):
    """A flow cannot be read or cannot continue: an unknown action, a missing value, an endless loop."""

    category = "flow"


class ModelError(SpindleError):
    """A language model refused, was cut off, or gave no usable answer even when corrected. `details` holds
    what was achieved until then."""

    category = "model"


class CancelledCallError(SpindleError):
    """The caller cancelled the call."""

    category = "cancelled"


class StoreError(SpindleError):
    """The store of the workspace cannot be used."""

    category = "store"


class StoreAwayError(StoreError):
    """The store does not answer now, and may do so in a moment."""


class TableError(SpindleError):
    """A table does not hold tools that can be read."""

    category = "table"


class Interruption(BaseException):
    """Work stops until a person has acted. Not an error: `except Exception` does not catch it.

    `details` holds what the person needs to see, as JSON. `about` makes it the same question when it is asked
    again, whatever its message then says besides."""

    kind: ClassVar[Literal["consent", "approval", "input", "wait"]]

    def __init__(
        self,
        message: str,
        *,
        source: str | None = None,
        tool: str | None = None,
        expires_at: float | None = None,
        details: dict[str, Any] | None = None,
        state: Any = None,
    ) -> None:
        super().__init__(message)
        self.message = self.about = message
        self.source = source
        self.tool = tool
        self.expires_at = expires_at
        """When the answer comes too late; None for never."""
        self.details = details or {}
        self.state = state
        """The state that the asker needs to continue, as JSON. No person sees it."""


class AuthorizationRequired(Interruption):
    """A user must give consent at a provider. `details` holds `url`, `provider` (its display name) and
    `scopes`."""

    kind = "consent"

    @property
    def url(self) -> str:
        """The address at which the user gives consent."""
        return str(self.details["url"])


class ApprovalRequired(Interruption):
    """A person must approve this very call. `details` holds the `tool` and its exact `arguments`."""

    kind = "approval"


class InputRequired(Interruption):
    """A person must answer a question. `details` holds the `schema` of the answer."""

    kind = "input"


def from_status(status: int, message: str, retry_after: float | None = None, **fields: Any) -> SpindleError:
    """The error for an HTTP status. Every source that speaks HTTP uses this mapping."""
    fields = {"answered": is_reported(status)} | fields
    return from_meaning(of_status(status, retry_after), message, **fields)


def from_meaning(meaning: Meaning, message: str, **fields: Any) -> SpindleError:
    """The error that a source reported with this meaning."""
    known = {"hint": REPORTED.get(meaning.category), "status": meaning.status}
    fields = known | {"retry_after": meaning.retry_after} | fields
    error = _by_category().get(meaning.category, ToolError)(message, **fields)
    error.retryable = meaning.retryable
    return error


def from_description(described: Mapping[str, Any]) -> SpindleError:
    """Rebuilds an error from the description that `to_dict` made."""
    # A pause for consent becomes an error once it has been reported.
    category = "auth" if described["category"] == "consent" else described["category"]
    fields = {key: described[key] for key in ("hint", *_CARRIED) if key in described}
    remedy = Remedy.from_dict(described.get("remedy"))
    if remedy is not None:
        fields |= {"remedy": remedy, "hint": None}
    return _by_category().get(category, ServerError)(described["message"], **fields)


def _by_category() -> dict[str, type[SpindleError]]:
    # Backwards: what an extension adds takes nothing's place.
    return {cls.category: cls for cls in reversed(SpindleError.__subclasses__())}


def interruption_in(error: BaseException) -> Interruption | None:
    """The interruption that an exception is, or that a group of exceptions holds."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return next(filter(None, map(interruption_in, group.exceptions)), None)
    return error if isinstance(error, Interruption) else None
