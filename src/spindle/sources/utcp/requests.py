"""A request from a template of the HTTP family and a call's arguments.

As UTCP has it: arguments named in `header_fields` are headers, the one named by `body_field` is the body,
those with a `{place}` in the URL go there, and all others are the query.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from spindle.domain.json_schema import JsonObject, is_array, is_object, to_json
from spindle.errors import ConfigurationError, InvalidArgumentsError
from spindle.http.bodies import body_kind, form, multipart
from spindle.http.credentials import CredentialParts, cookie_header
from spindle.http.encode import text
from spindle.http.request import FRAMING, Prepared, check_headers
from spindle.sources.utcp.templates import HttpLike, HttpTemplate, SseTemplate, StreamableHttpTemplate

_PLACE = re.compile(r"\{([^{}]+)\}")
_URL = re.compile(r"(?P<start>[a-z]+://)(?P<authority>[^/?#]*)(?P<rest>.*)", re.DOTALL)
_LABEL = re.compile(r"[A-Za-z0-9-]{1,63}")
# A name of two labels at least, so that an argument does not choose whose server it is.
_FIXED_DOMAIN = re.compile(r"\.[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+\.?(?::[0-9]+)?")


def prepare(template: HttpLike, arguments: JsonObject, shown: CredentialParts) -> Prepared:
    """The request of a template for these arguments."""
    left = dict(arguments)
    headers = {"accept": "text/event-stream" if isinstance(template, SseTemplate) else "*/*"}
    headers |= {name.lower(): value for name, value in template.headers.items()}
    for name in template.header_fields:
        if name in left:
            headers[name.lower()] = text(left.pop(name))
    content: bytes | None = None
    if template.body_field is not None and template.body_field in left:
        headers["content-type"], content = _body(template, headers, left.pop(template.body_field))
    url = placed(template.url, left)
    keys = {name for name, _ in shown.query}
    pairs = [f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in shown.query]
    query = [pair for name, value in left.items() if name not in keys for pair in query_pairs(name, value)]
    headers |= {name.lower(): value for name, value in shown.headers}
    for name in FRAMING:
        headers.pop(name, None)
    if shown.cookies:
        headers["cookie"] = cookie_header(shown.cookies, headers.get("cookie"))
    check_headers(headers)
    method = "POST" if isinstance(template, SseTemplate) and content is not None else template.method
    return Prepared(method, _with_query(url, query + pairs), headers, content)


def query_pairs(name: str, value: Any) -> list[str]:
    """A list repeats its name, and what a query has no form for is written as JSON."""
    items: list[Any] = value if is_array(value) else [value]
    return [f"{quote(name, safe='')}={quote(text(item), safe='')}" for item in items]


def host_problem(url: str) -> str | None:
    """Why the arguments must not be put into this URL: they would choose the server."""
    parts = _URL.match(url)
    if parts is None:
        return None
    # A variable is the user's to set.
    authority = re.sub(r"\$\{\w+\}", "x", parts["authority"])
    end = authority.rfind("}")
    if end >= 0 and not _FIXED_DOMAIN.fullmatch(authority[end + 1 :]):
        return "an argument would choose the server"
    return None


def placed(url: str, left: JsonObject) -> str:
    """Returns a URL with the arguments that have a place in it, which are taken out of `left`. What stands
    behind a `#` is no part of a request, and has none."""
    url = url.partition("#")[0]
    problem = host_problem(url)
    if problem is not None:
        raise ConfigurationError(f"the URL cannot be called: {problem}", sent=False)
    parts = _URL.match(url)
    if parts is None:
        raise ConfigurationError("the URL of the tool does not begin with http:// or https://", sent=False)
    used: set[str] = set()

    def value(match: re.Match[str], *, is_label: bool) -> str:
        name = match[1]
        if left.get(name) is None:
            raise InvalidArgumentsError(
                f"{name} is missing: it is part of the URL",
                details=[{"path": name, "problem": "is required"}],
                sent=False,
            )
        used.add(name)
        written = text(left[name])
        if is_label and not _LABEL.fullmatch(written):
            raise InvalidArgumentsError(
                f"{name} may be letters, digits and dashes: it is part of a host", sent=False
            )
        if written in ("", ".", ".."):
            # It would make the path another one.
            raise InvalidArgumentsError(f"{name} may not be {written!r}: it is part of a path", sent=False)
        return quote(written, safe="")

    authority = _PLACE.sub(lambda match: value(match, is_label=True), parts["authority"])
    rest = _PLACE.sub(lambda match: value(match, is_label=False), parts["rest"])
    for name in used:
        del left[name]
    return f"{parts['start']}{authority}{rest}"


def _with_query(url: str, pairs: list[str]) -> str:
    if not pairs:
        return url
    joiner = "" if url.endswith(("?", "&")) else "&" if "?" in url else "?"
    return f"{url}{joiner}{'&'.join(pairs)}"


def _body(template: HttpLike, headers: dict[str, str], value: Any) -> tuple[str, bytes]:
    media_type = headers.get("content-type")
    if media_type is None:
        if isinstance(template, (HttpTemplate, StreamableHttpTemplate)):
            media_type = template.content_type
        else:
            # What UTCP's own client sends where an event stream's template does not say.
            media_type = (
                "application/x-www-form-urlencoded" if is_object(value) else "text/plain; charset=utf-8"
            )
    match body_kind(media_type):
        case "json":
            return media_type, to_json(value)
        case "form":
            return media_type, form(value, {})
        case "multipart":
            boundary, content = multipart(value, {})
            return f"{media_type.partition(';')[0]}; boundary={boundary}", content
        case _:
            return media_type, text(value).encode("utf-8", "surrogatepass")
