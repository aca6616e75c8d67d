"""Errors as HTTP answers: a status, and a JSON body that says what was wrong and what to do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from spindle.domain.call import Result
from spindle.domain.json_schema import JsonObject, to_json
from spindle.errors import (
    AuthorizationRequired,
    BreakerOpenError,
    Interruption,
    InvalidArgumentsError,
    LoopError,
    SpindleError,
)
from spindle.listening.response import Response
from spindle.meanings import Meaning

if TYPE_CHECKING:
    from starlette.requests import Request

PROBLEM_TYPE = "application/problem+json"

# What a source says of our credential is no matter of the client's: only our own 401 means its token.
STATUSES: Mapping[str, int] = {
    "invalid_arguments": 400,
    "permission": 403,
    "not_found": 404,
    "client": 422,
    "flow": 422,
    "tool": 422,
    "rate_limited": 429,
    "configuration": 500,
    "store": 500,
    "table": 500,
    "auth": 502,
    "connection": 502,
    "in_doubt": 502,
    "model": 502,
    "server": 502,
    "cancelled": 503,
    "timeout": 504,
}


class BodyTooLargeError(InvalidArgumentsError):
    """The body of a request is larger than may be."""

    def __init__(self, limit: int, hint: str | None = None) -> None:
        super().__init__(f"the body is larger than {limit} bytes", hint=hint)


async def body_of(request: Request, limit: int, hint: str | None = None) -> bytes:
    """Returns the body of a request. Raises BodyTooLargeError as soon as more than `limit` bytes have come.
    The connection then throws the rest away, so that the client can read why."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise BodyTooLargeError(limit, hint)
    return bytes(body)


def problem(status: int, category: str, message: str, hint: str | None = None) -> JsonObject:
    """The body of an error response."""
    return {"status": status, "category": category, "message": message} | ({"hint": hint} if hint else {})


def of_error(error: BaseException) -> JsonObject:
    """The body for an error. Any other than a SpindleError is a bug of ours, and its text is not shown."""
    if isinstance(error, SpindleError):
        status = STATUSES.get(error.category, 500)
        if isinstance(error, BreakerOpenError) or (error.category == "store" and error.retry_after):
            status = 503
        elif isinstance(error, LoopError):
            status = 508
        elif isinstance(error, BodyTooLargeError):
            status = 413
        fields = error.to_dict("http")
        upstream = fields.pop("status", None)
        return {"status": status, **fields} | ({"source_status": upstream} if upstream else {})
    if isinstance(error, AuthorizationRequired):
        body = problem(409, "consent", error.message, "open `details.url` to give consent, then call again")
        return {**body, "source": error.source, "details": error.details}
    if isinstance(error, Interruption):
        return problem(409, "paused", "the call waits for a person, who cannot be asked here")
    kind = type(error).__name__
    return problem(500, "internal", f"a bug in Spindle: {kind}", "the server's log says where")


def of_result(tool: str, result: Result) -> JsonObject:
    """The body for a result by which the tool reports an error."""
    message = result.text or "the tool reported an error without a message"
    meaning = result.meaning or Meaning("tool")
    body = problem(STATUSES.get(meaning.category, STATUSES["tool"]), meaning.category, message)
    rare = {"retry_after": meaning.retry_after, "source_status": meaning.status}
    body |= {key: value for key, value in rare.items() if value is not None}
    return {**body, "retryable": meaning.retryable, "tool": tool, "details": result.to_dict()}


def respond(body: JsonObject, headers: Mapping[str, str] | None = None) -> Response:
    """The error response with this body."""
    sent = dict(headers or {})
    wait: Any = body.get("retry_after")
    if isinstance(wait, (int, float)):
        sent["Retry-After"] = str(max(0, math.ceil(wait)))
    return Response(to_json(body, default=str), body["status"], sent, PROBLEM_TYPE)
