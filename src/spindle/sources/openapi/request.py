"""A request from a stored tool and its arguments."""

from __future__ import annotations

import re
from typing import Any

from spindle.domain import trail
from spindle.domain.identity import Credential
from spindle.domain.json_schema import JsonObject, to_json
from spindle.domain.tool import Tool
from spindle.errors import ConfigurationError, InvalidArgumentsError
from spindle.http import credentials, encode
from spindle.http.bodies import encode_body
from spindle.http.origins import CredentialOrigins
from spindle.http.request import FRAMING, Prepared, check_headers
from spindle.telemetry import tracing

_VARIABLE = re.compile(r"\{([^{}]+)\}")
Pairs = list[tuple[str, str]]


def prepare(
    tool: Tool,
    arguments: JsonObject,
    base_url: str | None,
    headers: dict[str, str],
    credential: Credential,
    own: CredentialOrigins,
) -> Prepared:
    """The request of an operation for these arguments. `own` are the origins that the credential and the
    headers are for."""
    how = tool.spec.metadata
    base = base_of(tool, base_url)
    path: dict[str, str] = {}
    query: list[str] = []
    cookies: list[str] = []
    sent = {"accept": how.get("accept", "*/*"), **trail.headers_for(how), **tracing.headers()}
    for parameter in how["parameters"]:
        if parameter["argument"] in arguments:
            _place(parameter, arguments[parameter["argument"]], path, query, cookies, sent)
    shown = credentials.apply(how.get("security"), credential, headers)
    if headers or not shown.is_empty:
        own.require(base, f"the credentials for {tool.name}")
    query += [f"{encode.escape(name)}={encode.escape(value)}" for name, value in shown.query]
    cookies += [f"{name}={value}" for name, value in shown.cookies]
    content = None
    if how.get("body"):
        claimed = {parameter["argument"] for parameter in how["parameters"]}
        body = encode_body(how["body"], arguments, claimed, tool.input_schema)
        if body is not None:
            sent["content-type"], content = body.media_type, body.content
    for name in (*FRAMING, "host"):
        sent.pop(name, None)  # of tools that were stored when it was an argument
    if cookies:
        sent["cookie"] = "; ".join(cookies)
    sent |= {name.lower(): value for name, value in headers.items()}
    sent |= {name.lower(): value for name, value in shown.headers}
    check_headers(sent)
    target = _VARIABLE.sub(lambda match: path.get(match[1], ""), how["path"])
    return Prepared(how["method"], _joined(base, target, query), sent, content)


def base_of(tool: Tool, base_url: str | None) -> str:
    """Returns the address of the API of a tool: the one in the settings, or its document's."""
    base = base_url or tool.spec.metadata.get("server")
    if not base or _VARIABLE.search(base):
        raise ConfigurationError(
            f"the document does not say where the API of {tool.name} is",
            hint=f"set sources.{tool.source}.base_url",
            sent=False,
        )
    return base


def _joined(base: str, path: str, query: list[str]) -> str:
    # What stands behind a `#` tells operations of one path apart, and is no part of a request.
    address, _, fixed = base.partition("#")[0].partition("?")
    path, _, own = path.partition("#")[0].partition("?")
    whole = "&".join(part for part in (fixed, own, *query) if part)
    return f"{address.rstrip('/')}{path}" + (f"?{whole}" if whole else "")


def _place(
    parameter: JsonObject,
    value: Any,
    path: dict[str, str],
    query: list[str],
    cookies: list[str],
    headers: dict[str, str],
) -> None:
    name, place = parameter["name"], parameter["in"]
    if "media_type" in parameter:
        # Described by a media type instead of a style: written as that type, which is JSON in practice.
        value = (
            value
            if isinstance(value, str) and "json" not in parameter["media_type"]
            else to_json(value).decode()
        )
    style, explode = parameter.get("style", encode.DEFAULT_STYLE[place]), parameter.get("explode", False)
    if place == "path":
        written = encode.path_text(name, value, style, explode)
        if written in ("", ".", ".."):
            # It would make the path another one.
            raise InvalidArgumentsError(
                f"{parameter['argument']} may not be {written!r}: it is part of a path", sent=False
            )
        path[name] = written
    elif place == "header":
        headers[name.lower()] = encode.header_text(value, explode)
    elif place == "cookie":
        cookies += [f"{key}={item}" for key, item in encode.query_pairs(name, value, style, explode)]
    else:
        reserved = parameter.get("reserved", False)
        pairs = encode.query_pairs(name, value, style, explode, allow_reserved=reserved)
        query += [f"{key}={item}" for key, item in pairs]
