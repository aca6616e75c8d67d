"""Everything that goes wrong between a request and the last byte of its answer, in words of our own.

Nobody outside of `spindle.http` needs to know the errors of the HTTP library.

HttpFailure
├── InsideError        the address is of this machine or a private network
├── UnreachableError   no answer came
├── RedirectError      the answer leads where nobody goes
├── LostError          the answer broke off
├── UnpackError        the answer cannot be unpacked
└── TooLargeError      the answer is larger than allowed
"""

from __future__ import annotations

from spindle.errors import (
    ConfigurationError,
    ConnectionFailedError,
    ResultTooLargeError,
    ServerError,
    SpindleError,
)


class HttpFailure(Exception):  # noqa: N818 - one among errors: the base of those that have the ending
    """A request that came to nothing. Its text is the reason."""

    is_silence = False
    """True if nothing came in the time that there was."""


class InsideError(HttpFailure):
    """A request that may go to public addresses only would have gone elsewhere."""

    def __init__(self, host: str) -> None:
        super().__init__(f"{host} is on this machine or a private network")
        self.host = host


class UnreachableError(HttpFailure):
    """No answer came. `sent` is false where nothing can have arrived either."""

    def __init__(self, host: str, reason: str, *, sent: bool, is_silence: bool = False) -> None:
        super().__init__(reason)
        self.host = host
        self.sent = sent
        self.is_silence = is_silence


class RedirectError(HttpFailure):
    """A redirect that is not followed. Its text continues a sentence that begins with who sent it."""

    def __init__(self, problem: str, status: int, hint: str | None = None) -> None:
        super().__init__(problem)
        self.status = status
        self.hint = hint


class LostError(HttpFailure):
    """The connection ended before the answer did."""

    def __init__(self, reason: str, *, is_silence: bool = False) -> None:
        super().__init__(reason)
        self.is_silence = is_silence


class UnpackError(HttpFailure):
    """The answer is not packed in the way that it says."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"sent an answer that cannot be unpacked: {reason}")


class TooLargeError(HttpFailure):
    """The answer is larger than `limit` bytes."""

    def __init__(self, limit: int, status: int) -> None:
        super().__init__(f"answered with more than {limit} bytes")
        self.limit = limit
        self.status = status


def as_error(
    failure: HttpFailure, name: str, *, reach_hint: str, inside_hint: str, size_setting: str
) -> SpindleError:
    """Returns the error that a failure is to the user of the source `name`."""
    match failure:
        case InsideError():
            return ConfigurationError(
                f"{name!r} leads to {failure.host}, which is on this machine or a private network",
                hint=inside_hint,
                sent=False,
            )
        case UnreachableError():
            return ConnectionFailedError(
                f"cannot reach {name!r} at {failure.host}: {failure}",
                hint=reach_hint,
                sent=failure.sent,
                unreachable=not failure.sent,
            )
        case RedirectError():
            return ServerError(f"{name!r} {failure}", hint=failure.hint, status=failure.status)
        case TooLargeError():
            return ResultTooLargeError(
                f"{name!r}: the answer is larger than {failure.limit} bytes",
                hint=f"ask for less, or raise sources.{name}.{size_setting}",
                status=failure.status,
            )
        case UnpackError():
            return ServerError(f"{name!r} {failure}")
        case _:
            return ConnectionFailedError(f"lost {name!r} while it answered: {failure}")
