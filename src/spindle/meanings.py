"""The meaning of an error that a source reported, read from data: a status, a machine's code, a wait.

Sentences are not read here: those are matched only by rules that somebody wrote (`domain/error_rules`).
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from itertools import islice
from typing import Any, Final, cast

OWN_KEY: Final = "io.spindle/error"
"""The key of `_meta` under which Spindle itself tells the error of a result that it serves."""

MAX_OBJECTS: Final = 64
MAX_FIELDS: Final = 200
"""Of one object that are looked at."""
MAX_DEPTH: Final = 6
MAX_WAIT: Final = 31 * 24 * 3600.0
"""Seconds. A longer wait is no wait, and probably no number of seconds."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """The category of an error that a source reported, with its status and the wait that it asks for."""

    category: str
    status: int | None = None
    retry_after: float | None = None
    retryable: bool = False
    """True if the same call may be made again: nothing was done, or doing it twice does no harm."""

    def to_dict(self) -> dict[str, Any]:
        """Returns the meaning as JSON, without empty fields."""
        fields = {"category": self.category, "retryable": self.retryable}
        rare = {"status": self.status, "retry_after": self.retry_after}
        return fields | {key: value for key, value in rare.items() if value is not None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Meaning | None:
        """Returns the meaning that was written as JSON, if there is one."""
        category = data.get("category")
        if not isinstance(category, str):
            return None
        status = data.get("status")
        return cls(
            category,
            status if isinstance(status, int) and not isinstance(status, bool) else None,
            _seconds(data.get("retry_after"), ""),
            data.get("retryable") is True,
        )


CATEGORIES: Final = frozenset(
    {"auth", "client", "configuration", "connection", "flow", "invalid_arguments", "model", "not_found"}
    | {"permission", "rate_limited", "server", "store", "table", "timeout", "tool"}
)
"""The categories that a result can report. Others, such as `cancelled`, are about the caller."""

GENERAL: Final = frozenset({"client", "server", "tool"})
"""The categories that say that something is wrong, and not what. A rule may say more."""


def of_status(status: int, retry_after: float | None = None) -> Meaning:
    """The meaning of an HTTP status, of a request that failed at the HTTP server itself."""
    category, retryable = "client", False
    if status in (401, 407):
        category = "auth"
    elif status == 429 or (status == 503 and retry_after is not None):
        category, retryable = "rate_limited", True
    elif status == 403:
        category = "permission"
    elif status in (404, 410):
        category = "not_found"
    elif status in (408, 504):
        category, retryable = "timeout", True
    elif status >= 500:
        category, retryable = "server", True
    return Meaning(category, status, retry_after, retryable)


def is_reported(status: int) -> bool:
    """True for an HTTP status by which a server tells of its own mistake. The others from 500 on are said by
    whoever stands before it, or by a server that does no work."""
    return 500 <= status < 520 and status not in (502, 503, 504)


def answered(status: int, retry_after: float | None = None) -> Meaning:
    """The meaning of a status that a server tells about the work behind it. The server itself is well, so
    only what it says will pass is worth another try."""
    meaning = of_status(status, retry_after)
    retryable = meaning.category == "rate_limited" or status == 503
    return Meaning(meaning.category, status, retry_after, retryable)


# The errors of JSON-RPC, and those that revisions of MCP and its SDKs add. -32000 is not among them:
# everybody uses it for anything.
_RPC_CODES: Final[Mapping[int, str]] = {
    -32700: "client",
    -32600: "client",
    -32601: "client",
    -32602: "client",
    -32001: "timeout",
    -32002: "not_found",
    -32020: "client",
    -32021: "client",
    -32022: "client",
    -32042: "auth",
}


def of_code(code: int) -> Meaning | None:
    """The meaning of the code of a JSON-RPC error; None for one that says no more than that there is one."""
    category = _RPC_CODES.get(code)
    return Meaning(category) if category else None


def in_data(*values: Any) -> Meaning | None:
    """The meaning of an error in the data that tells of it: the first status among its fields, a code that
    machines use, and the wait. None if none of its fields is one of those."""
    status: int | None = None
    wait: float | None = None
    coded: str | None = None
    for found in _objects(values):
        own = found.get(OWN_KEY)
        if isinstance(own, dict):
            told = Meaning.from_dict(cast("dict[str, Any]", own))
            if told is not None and told.category in CATEGORIES:
                return told
        said = _Fields(found)
        status = said.status if status is None else status
        wait = said.wait if wait is None else wait
        coded = _more_telling(coded, said.category)
    if status is not None:
        meaning = answered(status, wait)
        if coded is not None and (meaning.category in GENERAL or coded == "rate_limited"):
            return Meaning(coded, status, wait, meaning.retryable or coded == "rate_limited")
        return meaning
    if coded is None and wait is not None:
        coded = "rate_limited"
    return Meaning(coded, None, wait, coded == "rate_limited") if coded is not None else None


def in_status_line(text: str) -> Meaning | None:
    """The meaning of a text that is a status with its own phrase and nothing else: `HTTP 429 Too Many
    Requests`, `Error 404: Not Found`. None for any other, which may be a sentence."""
    found = re.fullmatch(_STATUS_LINE, text) if len(text) <= MAX_STATUS_LINE else None
    status = int(found[1]) if found is not None else 0
    if found is None or _plain(found[2]) not in _PHRASES.get(status, ()):
        return None
    return answered(status, None)


def _more_telling(known: str | None, other: str | None) -> str | None:
    """The category that says more; a limit that is reached is told beside another, such as a permission."""
    if other is None or known in (None, other):
        return known or other
    return other if known in GENERAL or other == "rate_limited" else known


def _objects(values: tuple[Any, ...]) -> Iterator[dict[str, Any]]:
    """Yields the objects that may tell of an error, the outer before the inner."""
    waiting = deque((value, 0) for value in values)
    seen = 0
    while waiting and seen < MAX_OBJECTS:
        value, depth = waiting.popleft()
        if isinstance(value, list):
            waiting.extend((item, depth + 1) for item in cast("list[Any]", value)[:4] if depth < MAX_DEPTH)
        elif isinstance(value, dict):
            seen += 1
            found = dict(islice(cast("dict[str, Any]", value).items(), MAX_FIELDS))
            yield found
            if depth < MAX_DEPTH:
                waiting.extend((item, depth + 1) for key, item in found.items() if _plain(key) in _INSIDE)


class _Fields:
    """The fields of one object that say something about its error."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.status: int | None = None
        self.wait: float | None = None
        self.category: str | None = None
        is_error = not _NAMED.isdisjoint(found)
        for key, value in found.items():
            name = _plain(key)
            if name in _WAITS and self.wait is None:
                self.wait = _seconds(value, name)
            if name in _STATUSES and self.status is None:
                self.status = _status(value)
            if name in _CODES or (name == "name" and is_error):
                self.category = _more_telling(self.category, _coded(value))
            if name == "code" and value in _WRONG_REQUEST:
                self.category = _more_telling(self.category, "client")
        if self.category is None and self.status is None:
            self.category = _of_database(found)


_INSIDE: Final = frozenset(
    [
        "error",
        "errors",
        "err",
        "data",
        "detail",
        "details",
        "response",
        "body",
        "cause",
        "result",
        "meta",
        "metadata",
        "extensions",
        "problem",
        "originalerror",
        "innererror",
        "exception",
        "reason",
        "headers",
        "responsemetadata",
        "parameters",
        "status",
    ]
)
_STATUSES: Final = frozenset(
    [
        "status",
        "statuscode",
        "httpstatus",
        "httpstatuscode",
        "httpcode",
        "responsestatus",
        "responsecode",
        "errorcode",
        "code",
    ]
)
_CODES: Final = frozenset(
    [
        "code",
        "errorcode",
        "type",
        "errortype",
        "status",
        "reason",
        "error",
        "kind",
        "exception",
        "exceptiontype",
        "errorname",
        "title",
    ]
)
_WRONG_REQUEST: Final = (-32600, -32601, -32602)
"""The codes of JSON-RPC, wherever it is spoken."""
_NAMED: Final = frozenset({"message", "stack", "description"})
"""Keys of an object that is an error, whose `name` is then the kind of it."""
_WAITS: Final = frozenset(
    [
        "retryafter",
        "retryafterseconds",
        "retryafterinseconds",
        "retryaftersecs",
        "retryafterms",
        "retryaftermilliseconds",
        "retrydelay",
    ]
)

_WORDS: Final[Mapping[str, str]] = {
    word: category
    for category, words in {
        "rate_limited": "ratelimit ratelimited ratelimitexceeded ratelimits ratelimitreached toomanyrequests"
        " throttled throttling throttlingexception requestthrottled requestlimitexceeded resourceexhausted"
        " slowdown quotaexceeded userratelimitexceeded toomanycalls overrequestratelimit"
        " provisionedthroughputexceeded bandwidthlimitexceeded limitexceeded secondaryratelimit",
        "auth": "authfailed unauthorized unauthorised unauthenticated authentication authenticationfailed"
        " authenticationrequired invalidauth notauthed notauthenticated tokenexpired tokenrevoked"
        " expiredtoken invalidtoken invalidapikey invalidaccesstoken invalidcredentials accountinactive"
        " missingauthentication badjwt invalidjwt jwtexpired sessionexpired unrecognizedclient"
        " invalidclienttokenid signaturedoesnotmatch pgrst301 pgrst302 pgrst303",
        "permission": "forbidden permissiondenied permission accessdenied notauthorized notallowed"
        " insufficientpermissions insufficientscope insufficientprivilege missingscope restrictedresource"
        " unauthorizedoperation eacces eperm nopermission",
        "not_found": "notfound objectnotfound resourcenotfound resourcemissing nosuchkey nosuchbucket"
        " nosuchentity doesnotexist entitynotfound pagenotfound channelnotfound usernotfound filenotfound"
        " messagenotfound recordnotfound enoent gone pgrst116 pgrst202 pgrst205",
        "timeout": "timeout timedout requesttimeout requesttimedout gatewaytimeout deadlineexceeded etimedout"
        " esockettimedout querytimeout connecttimeout readtimeout operationtimedout",
        "client": "badrequest invalidrequest invalidargument invalidparameter invalidparameters"
        " invalidparams invalidinput validation validationfailed unprocessableentity unprocessablecontent"
        " failedprecondition conflict alreadyexists outofrange methodnotallowed paramsinvalid",
        "server": "internal internalserver internalfailure serviceunavailable unavailable badgateway"
        " overloaded dataloss",
    }.items()
    for word in words.split()
}

_TOKEN = re.compile(r"[A-Za-z_][\w.:#/$-]{0,199}")
_STATUS_TEXT = re.compile(r"\s*([45]\d\d)(?!\w)")
_DURATION = re.compile(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*(ms|s)?\s*")
_SQLSTATE = re.compile(r"[0-9A-Z]{5}")
_NOT_PLAIN = re.compile(r"[^a-z0-9]+")


def _plain(text: str) -> str:
    """A name without case and punctuation: `Retry-After`, `retry_after` and `retryAfter` are one."""
    return _NOT_PLAIN.sub("", text[:200].lower())


MAX_STATUS_LINE: Final = 100
# Compiled when first used: only an error is read with it.
_STATUS_LINE: Final = (
    r"(?i)\s*(?:(?:HTTP(?:/[0-9.]{1,3})?|API|request|error|failed|with|status|code)[\s:-]{1,3}){0,6}"
    r"([45][0-9]{2})[\s:,(-]{1,3}([A-Za-z' -]{4,40}[a-z])[.)]?\s*"
)
_PHRASES: Final[Mapping[int, frozenset[str]]] = {
    status.value: frozenset({_plain(status.phrase), _plain(status.name)}) for status in HTTPStatus
}


def _status(value: Any) -> int | None:
    if isinstance(value, str):
        match = _STATUS_TEXT.match(value)
        return int(match[1]) if match else None
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 400 <= value <= 599 else None


def _coded(value: Any) -> str | None:
    """The category of a code of one word, such as `RESOURCE_EXHAUSTED`, `rate_limit_error` or the last part
    of a URN or an address. Text of several words is a sentence, or may be one."""
    if not isinstance(value, str) or _TOKEN.fullmatch(value) is None:
        return None
    word = _plain(re.split(r"[./:#$]", value.rstrip("/"))[-1])
    for _ in range(2):
        if word in _WORDS:
            return _WORDS[word]
        word = word.removesuffix("exception").removesuffix("error").removesuffix("fault")
        word = word.removeprefix("error").removeprefix("err")
    return _WORDS.get(word)


def _of_database(found: dict[str, Any]) -> str | None:
    """The category of an SQLSTATE, in an object that is an error of a database or says `sqlstate`."""
    code = found.get("sqlstate", found.get("sqlState"))
    if code is None and ("severity" in found or {"hint", "details"} <= found.keys()):
        code = found.get("code")
    if not isinstance(code, str) or _SQLSTATE.fullmatch(code) is None:
        return None
    if code in ("42501", "57014"):
        return "permission" if code == "42501" else "timeout"
    return {"28": "auth", "22": "client", "23": "client", "42": "client"}.get(code[:2])


def _seconds(value: Any, name: str) -> float | None:
    unit = 0.001 if name.endswith(("ms", "milliseconds")) else 1.0
    if isinstance(value, str):
        match = _DURATION.fullmatch(value)
        if match is None:
            return None
        value, unit = float(match[1]), 0.001 if match[2] == "ms" else unit
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return value * unit if 0 <= value * unit <= MAX_WAIT else None
