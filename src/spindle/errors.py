"""Every error that Spindle raises, as one tree.

    SpindleError
    ├── ConfigurationError      a setting is wrong or missing                  configuration
    │   ├── NameConflictError   two tools claim one name
    │   └── LoopError           a workspace would be its own source
    ├── NotFoundError           no tool, source or record of that name         not_found
    ├── InvalidArgumentsError   the arguments do not fit the tool's schema     invalid_arguments
    ├── PermissionDeniedError   this principal may not do that                 permission
    ├── AuthError               the source refused the credential              auth
    ├── CallTimeoutError        no answer in time                              timeout
    ├── ConnectionFailedError   the source cannot be reached, or was lost      connection
    │   └── BreakerOpenError    not tried: the source failed too often
    ├── RateLimitedError        the source asks to wait                        rate_limited
    ├── ClientError             the source says that the request is wrong      client
    ├── ServerError             the source failed, or broke its protocol       server
    │   └── ResultTooLargeError the answer is over the size limit
    ├── ToolError               the tool ran and reported an error             tool
    ├── FlowError               a flow cannot be read, or cannot continue      flow
    ├── ModelError              a language model gave no usable answer         model
    ├── CancelledCallError      the caller cancelled the call                  cancelled
    ├── StoreError              the workspace's own state cannot be used       store
    └── TableError              a table does not hold tools that can be read   table

`Interruption` stands apart: a pause is not an error, so no handler for errors may catch it.

    Interruption
    ├── AuthorizationRequired   a user must give consent at a provider         consent
    ├── ApprovalRequired        a person must allow this very call             approval
    └── InputRequired           a person must answer a question                input
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self, cast, overload

from spindle.remedies import REMOTE, Remedy, Surface

FOR_CALLERS = frozenset({"client", "error", "invalid_arguments", "not_found", "tool"})
"""The categories whose hints are about the call, and so for whoever made it. The others are about what is
configured where Spindle runs."""


class SpindleError(Exception):
    """The base of every error that Spindle raises. `message` says what was wrong, `hint` what to do about
    it. Where that depends on the reader, `remedy` says it as data, and `hint_for` puts it into words."""

    category: ClassVar[str] = "error"
    retryable: bool = False

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
        challenge: str | None = None,
        details: Any = None,
    ) -> None:
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

    def to_dict(self, surface: Surface = "python") -> dict[str, Any]:
        """Describes the error as JSON in the words of a surface, without empty fields."""
        remedy = None if self.remedy is None or surface in REMOTE else self.remedy.to_dict()
        fields = {
            "category": self.category,
            "message": self.message,
            "hint": self.hint_for(surface),
            "remedy": remedy,
            "retryable": self.retryable,
            "source": self.source,
            "tool": self.tool,
            "status": self.status,
            "retry_after": self.retry_after,
            "details": self.details,
        }
        return {key: value for key, value in fields.items() if value is not None}


class ConfigurationError(SpindleError):
    """A setting is wrong or missing."""

    category = "configuration"


class NameConflictError(ConfigurationError):
    """Two tools claim one name; the message names both places."""


class LoopError(ConfigurationError):
    """A workspace would be its own source, directly or through others. `path` names the sources on the way,
    as far as it is known."""

    def __init__(self, message: str, *, path: Sequence[str] = (), **fields: Any) -> None:
        super().__init__(message, **fields)
        self.path = tuple(path)

    @classmethod
    def along(cls, path: Sequence[str]) -> Self:
        """The error for a circle that these sources make; without any, it closes here."""
        way = " → ".join(path)
        message = (
            f"{way} leads in a circle, back to a workspace that the request came through"
            if path
            else "the request came through this workspace before, which cannot be its own source"
        )
        hint = "remove one of the sources that make the circle, or set `enabled = false` in it"
        return cls(message, path=path, hint=hint, details={"loop": [*path]})


class NotFoundError(SpindleError):
    """There is no tool, source or record of that name."""

    category = "not_found"


class InvalidArgumentsError(SpindleError):
    """The arguments do not fit the tool's schema. `details` lists every problem as {"path": ...,
    "problem": ...}."""

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


class BreakerOpenError(ConnectionFailedError):
    """The source failed repeatedly, so it is not called for `retry_after` seconds."""


class RateLimitedError(SpindleError):
    """The source asks us to wait before calling again."""

    category = "rate_limited"
    retryable = True


class ClientError(SpindleError):
    """The source says that the request is wrong."""

    category = "client"


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
    failure: Any = None
    """The `ToolFailure` of a Python tool of the workspace: where in its code it failed."""


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


class TableError(SpindleError):
    """A table does not hold tools that can be read."""

    category = "table"


class Interruption(BaseException):
    """Work stops until a person has acted. Not an error: `except Exception` does not catch it.

    `details` holds what the person needs to see, as JSON.
    """

    kind: ClassVar[Literal["consent", "approval", "input"]]

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
        self.message = message
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


def from_status(
    status: int, message: str, *, retry_after: float | None = None, **fields: Any
) -> SpindleError:
    """The error for an HTTP status. Every source that speaks HTTP uses this mapping."""
    fields |= {"status": status, "retry_after": retry_after}
    if status in (401, 407):
        hint = "check the source's `auth` setting and that its credential is still valid"
        return AuthError(message, hint=hint, **fields)
    if status == 403:
        return PermissionDeniedError(
            message, hint="the credential lacks a permission that the source requires", **fields
        )
    if status in (404, 410):
        return NotFoundError(message, **fields)
    if status in (408, 504):
        return CallTimeoutError(message, **fields)
    if status == 429 or (status == 503 and retry_after is not None):
        return RateLimitedError(message, hint="wait, or lower the source's `rate_limit`", **fields)
    if status >= 500:
        return ServerError(message, retryable=True, **fields)
    return ClientError(message, **fields)


def from_description(described: Mapping[str, Any]) -> SpindleError:
    """Rebuilds an error from the description that `to_dict` made."""
    classes = {cls.category: cls for cls in SpindleError.__subclasses__()}
    # A pause for consent becomes an error once it has been reported.
    category = "auth" if described["category"] == "consent" else described["category"]
    keys = ("hint", "source", "tool", "status", "retry_after", "details")
    fields = {key: described[key] for key in keys if key in described}
    remedy = Remedy.from_dict(described.get("remedy"))
    if remedy is not None:
        fields |= {"remedy": remedy, "hint": None}
    return classes.get(category, ServerError)(described["message"], **fields)


def innermost(error: BaseException) -> BaseException:
    """The first error inside nested exception groups."""
    while isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        error = group.exceptions[0]
    return error


def interruption_in(error: BaseException) -> Interruption | None:
    """The interruption that an exception is, or that a group of exceptions holds."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return next(filter(None, map(interruption_in, group.exceptions)), None)
    return error if isinstance(error, Interruption) else None


def suggest(wrong: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant, or None."""
    close = difflib.get_close_matches(wrong, list(known), n=1, cutoff=0.6)
    return close[0] if close else None


@overload
def did_you_mean(wrong: str, known: Iterable[str], otherwise: str) -> str: ...
@overload
def did_you_mean(wrong: str, known: Iterable[str], otherwise: str | None = None) -> str | None: ...
def did_you_mean(wrong: str, known: Iterable[str], otherwise: str | None = None) -> str | None:
    """The hint for a name that is not known: the one that was probably meant, else `otherwise`."""
    meant = suggest(wrong, known)
    return f"did you mean {meant!r}?" if meant else otherwise
