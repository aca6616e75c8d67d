"""A request that is ready to be sent, and what must hold of it."""

from __future__ import annotations

import re
from dataclasses import field, replace
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote_plus

from spindle.domain.records import quick_dataclass
from spindle.errors import InvalidArgumentsError
from spindle.http.credentials import cookie_header

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spindle.domain.identity import Credential

FRAMING = frozenset({"content-length", "transfer-encoding", "connection"})
"""Headers that say where a message ends: they are for whoever sends it."""
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@quick_dataclass(frozen=True, slots=True)
class Prepared:
    """A request that is ready to be sent."""

    method: str
    url: str
    headers: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    content: bytes | None = field(default=None, repr=False)


def with_credential(request: Prepared, credential: Credential) -> Prepared:
    """Returns a request that shows a credential."""
    if not (credential.headers or credential.cookies or credential.query):
        return request
    headers = {name.lower(): value for name, value in request.headers.items()}
    headers |= {name.lower(): value for name, value in credential.headers}
    if credential.cookies:
        headers["cookie"] = cookie_header(credential.cookies, headers.get("cookie"))
    return replace(request, url=with_query(request.url, credential.query), headers=headers)


def with_query(url: str, pairs: tuple[tuple[str, str], ...]) -> str:
    """Returns a URL with these parameters in its query, in place of others of the same names."""
    if not pairs:
        return url
    address, _, asked = url.partition("#")[0].partition("?")
    names = {name for name, _ in pairs}
    kept = [part for part in asked.split("&") if part and unquote_plus(part.partition("=")[0]) not in names]
    added = [f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in pairs]
    return f"{address}?{'&'.join([*kept, *added])}"


def check_headers(headers: Mapping[str, str]) -> None:
    """Raises InvalidArgumentsError for a header that would not be one header any more."""
    for name, value in headers.items():
        if not value.isprintable() or not name.isprintable():
            raise InvalidArgumentsError(
                f"the header {name} would hold a line break or a control character", sent=False
            )
