"""The tool that makes any request, as long as it stays below the API's base."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from spindle.domain.json_schema import JsonObject, to_json
from spindle.domain.tool import Hints, ToolSpec
from spindle.errors import InvalidArgumentsError
from spindle.http import credentials, encode
from spindle.http.addresses import host_of, is_below
from spindle.http.bodies import form
from spindle.http.request import HEADER_NAME, Prepared, check_headers

if TYPE_CHECKING:
    from spindle.domain.identity import Credential
    from spindle.sources.http_api.config import HttpConfig

NAME = "request"
MARK = "any_request"
"""In a tool's metadata: it is this one."""
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
# They prove who asks, say where the request goes, or belong to the connection.
_NOT_YOURS = frozenset(
    {
        "authorization", "proxy-authorization", "cookie", "host", "content-length", "connection",
        "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "expect",
    }
)  # fmt: skip
_STRAY_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_SCALAR: JsonObject = {"type": ["string", "number", "boolean", "null"]}
_MAX_DECODINGS = 5


def spec(config: HttpConfig) -> ToolSpec:
    """The definition of the tool that makes any request."""
    methods = list(config.methods)
    reading = _READING.issuperset(methods)
    fields = {
        "type": "object",
        "additionalProperties": {"anyOf": [_SCALAR, {"type": "array", "items": _SCALAR}]},
    }
    properties: JsonObject = {
        "path": {
            "type": "string",
            "description": f"Below {config.url}, such as `/orders/7`; reserved characters percent-encoded.",
        },
        "method": {"type": "string", "enum": methods, "default": _default(config)},
        "query": {**fields, "description": "Query parameters. A list repeats its name."},
        "headers": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Further headers. Credentials are added by themselves.",
        },
    }
    if not reading:
        properties |= {
            # Not `json`: on the command line that is how results are printed.
            "body": {"description": "A body that is sent as JSON."},
            "form": {"type": "object", "description": "A body that is sent as a form."},
            "text": {"type": "string", "description": "A body as it is; its type goes into `headers`."},
        }
    return ToolSpec(
        remote_name=NAME,
        title=f"Request to {host_of(config.url)}",
        description=config.description
        or f"Make an HTTP request to the API at {config.url} and return what it answers.",
        input_schema={
            "type": "object", "properties": properties, "required": ["path"], "additionalProperties": False,
        },
        hints=Hints(read_only=reading, idempotent=True if reading else None, open_world=True),
        place=config.url,
        metadata={MARK: True},
    )  # fmt: skip


def prepare(arguments: JsonObject, config: HttpConfig, credential: Credential) -> Prepared:
    """The request that the arguments ask for, with the credential added."""
    method = arguments.get("method", _default(config))
    if method not in config.methods:
        # A tool that was stored before the settings changed may still offer it.
        raise InvalidArgumentsError(f"{method} is not allowed here", hint="see `methods`", sent=False)
    headers = {"accept": "*/*"} | _headers(arguments.get("headers", {}), config, credential)
    content = _content(arguments, headers)
    shown = credentials.apply(None, credential, {})
    taken = {name for name, _ in shown.query}
    query: list[str] = []
    for name, value in arguments.get("query", {}).items():
        if name in taken:
            raise InvalidArgumentsError(f"query.{name} is the source's credential", sent=False)
        query += [f"{key}={item}" for key, item in encode.query_pairs(name, value, "form", True)]
    query += [f"{encode.escape(name)}={encode.escape(value)}" for name, value in shown.query]
    if shown.cookies:
        headers["cookie"] = credentials.cookie_header(shown.cookies)
    headers |= {name.lower(): value for name, value in config.headers.items()}
    headers |= {name.lower(): value for name, value in shown.headers}
    check_headers(headers)
    return Prepared(method, target(config.url, arguments["path"], query), headers, content)


def target(base: str, path: str, query: list[str]) -> str:
    """The URL, which is below `base` whatever the path tries."""
    path, _, own = path.partition("?")
    _refuse_escape(path)
    root = base.rstrip("/")
    whole = f"{root}/{_quoted(path.removeprefix('/'), '/')}" if path else base
    asked = "&".join(part for part in (_quoted(own, "/?[]"), *query) if part)
    url = f"{whole}?{asked}" if asked else whole
    # Once more as the HTTP library understands it, since that is what is sent.
    if not is_below(url, base):
        raise _outside(path)
    return url


def _quoted(text: str, safe: str) -> str:
    """The text percent-encoded; what is encoded already stays as it is."""
    return quote(_STRAY_PERCENT.sub("%25", text), safe=f"{safe}%:@!$&'()*+,;=~")


def _refuse_escape(path: str) -> None:
    if not path.isprintable() or "#" in path:
        raise InvalidArgumentsError("path holds a control character or `#`", sent=False)
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", path) or re.match(r"[/\\]{2}", path):
        raise _outside(path)
    plain = path
    for _ in range(_MAX_DECODINGS):
        decoded = unquote(plain)
        if decoded == plain:
            break
        plain = decoded
    else:
        raise InvalidArgumentsError("path is percent-encoded too many times over", sent=False)
    # Servers differ in what they undo: encodings, backslashes, what follows a `;`.
    for step in re.split(r"[/\\]", plain):
        if step.partition(";")[0].strip() in (".", ".."):
            raise _outside(path)


def _outside(path: str) -> InvalidArgumentsError:
    return InvalidArgumentsError(
        f"the path {path!r} leads out of the API", hint="give a path below its base URL", sent=False
    )


def _headers(given: Any, config: HttpConfig, credential: Credential) -> dict[str, str]:
    own = credentials.named_parts(credential).headers
    fixed = {name.lower() for name in config.headers} | {name.lower() for name, _ in own}
    headers: dict[str, str] = {}
    for name, value in given.items():
        lower = name.lower()
        if not HEADER_NAME.fullmatch(name):
            raise InvalidArgumentsError(f"headers: {name!r} is not the name of a header", sent=False)
        if lower in _NOT_YOURS or lower in fixed or lower.startswith("proxy-"):
            raise InvalidArgumentsError(
                f"the header {name} cannot be given with a call",
                hint="credentials and fixed headers are in the source's settings",
                sent=False,
            )
        headers[lower] = value
    return headers


def _content(arguments: JsonObject, headers: dict[str, str]) -> bytes | None:
    given = [key for key in ("body", "form", "text") if key in arguments]
    if len(given) > 1:
        raise InvalidArgumentsError(f"give {' or '.join(given)}, not both", sent=False)
    if not given:
        return None
    value = arguments[given[0]]
    if given == ["body"]:
        headers.setdefault("content-type", "application/json")
        return to_json(value)
    if given == ["form"]:
        headers.setdefault("content-type", "application/x-www-form-urlencoded")
        return form(value, {})
    headers.setdefault("content-type", "text/plain; charset=utf-8")
    return value.encode()


def _default(config: HttpConfig) -> str:
    return "GET" if "GET" in config.methods else config.methods[0]
