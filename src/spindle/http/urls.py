"""The one reader of URLs: what it finds is what is checked, compared and sent.

The HTTP library is handed these parts and reads no URL by itself: two readers that differ are a way around
every check.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from dataclasses import dataclass, replace
from urllib.parse import quote, urljoin

PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21}
MAX_LENGTH = 65536

_PARTS = re.compile(
    r"(?:([a-zA-Z][a-zA-Z0-9+.-]*):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL
)
_AUTHORITY = re.compile(r"(?:(.*)@)?(\[.*\]|[^:@]*)(?::(.*))?", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NUMBERS = re.compile(r"[0-9]+(?:\.[0-9]+){3}")
# Each leaves alone what a part may hold as it is, and `%`: what is encoded stays as it was encoded.
_NOT_IN_PATH = re.compile(r"[^!$-;=@-_a-z|~]+")
_NOT_IN_QUERY = re.compile(r"[^!$-;=?-~]+")
_NOT_IN_FRAGMENT = re.compile(r"[^!#-;=?-_a-~]+")
_NOT_IN_USER = re.compile(r"[^!$-.0-:A-Z_a-z~]+")
_NOT_IN_HOST = re.compile(r"[^!\"$-.0-9;=A-Z\\_`a-z{|}~]+")


class InvalidUrlError(ValueError):
    """A text that is not a URL. Its message holds nothing of the text, which may be secret."""


@dataclass(frozen=True, slots=True)
class Url:
    """A URL in its parts, each written as it is sent. A reference that is not whole has empty ones."""

    scheme: str
    user: str
    """`name:password`, encoded; empty where there is none."""
    host: str
    """In small letters, as name servers know it; an IPv6 address without its brackets."""
    port: int | None
    """None for the one that the scheme stands for."""
    path: str
    query: str | None
    fragment: str | None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        user = f"{self.user}@" if self.user else ""
        port = f":{self.port}" if self.port is not None else ""
        place = f"{user}{host}{port}"
        return "".join(
            (
                f"{self.scheme}:" if self.scheme else "",
                f"//{place}" if place else "",
                self.path,
                f"?{self.query}" if self.query is not None else "",
                f"#{self.fragment}" if self.fragment is not None else "",
            )
        )

    @property
    def effective_port(self) -> int | None:
        """The port that a connection is made to."""
        return self.port or PORTS.get(self.scheme)

    def join(self, location: str) -> Url:
        """Returns where a location leads from here."""
        return read_url(urljoin(str(self), str(read_url(location))))

    def plain(self) -> Url:
        """Returns it without the parts that often hold secrets."""
        return replace(self, user="", query=None, fragment=None)


def read_url(text: str) -> Url:
    """Returns the parts of a URL; raises InvalidUrlError for what is not one."""
    if len(text) > MAX_LENGTH:
        raise InvalidUrlError(f"a URL of more than {MAX_LENGTH} characters")
    if _CONTROL.search(text):
        raise InvalidUrlError("a URL that holds a control character")
    parts = _PARTS.fullmatch(text)
    assert parts is not None  # each part may be empty, and the last takes all that is left
    scheme, authority, path, query, fragment = parts.groups()
    scheme = (scheme or "").lower()
    user, host, port = _read_authority(authority or "", scheme)
    has_place = bool(user or host) or port is not None
    if has_place and path and not path.startswith("/"):
        raise InvalidUrlError("a URL whose path does not begin with /")
    if not scheme and not has_place and path.startswith(("//", ":")):
        raise InvalidUrlError("a URL without a host")
    if scheme or has_place:
        path = _without_dots(path)
    return Url(
        scheme,
        user,
        host,
        port,
        _NOT_IN_PATH.sub(_encoded, path),
        None if query is None else _NOT_IN_QUERY.sub(_encoded, query),
        None if fragment is None else _NOT_IN_FRAGMENT.sub(_encoded, fragment),
    )


@functools.lru_cache(1024)
def _read_authority(text: str, scheme: str) -> tuple[str, str, int | None]:
    if not text:
        return "", "", None
    found = _AUTHORITY.fullmatch(text)
    if found is None:
        raise InvalidUrlError("a URL whose host is not one")
    user, host, port = found.groups()
    number: int | None = None
    if port:
        if not (port.isascii() and port.isdecimal() and int(port) < 65536):
            raise InvalidUrlError("a URL whose port is not a number of a port")
        number = int(port) if int(port) != PORTS.get(scheme) else None
    return _NOT_IN_USER.sub(_encoded, user or ""), _read_host(host), number


def _read_host(host: str) -> str:
    try:
        if host.startswith("["):
            return str(ipaddress.IPv6Address(host[1:-1]))
        if _NUMBERS.fullmatch(host):
            return str(ipaddress.IPv4Address(host))
    except ValueError:
        raise InvalidUrlError("a URL whose host is not an address") from None
    if host.isascii():
        return _NOT_IN_HOST.sub(_encoded, host.lower())
    import idna

    try:
        return idna.encode(host.lower()).decode("ascii")
    except idna.IDNAError:
        raise InvalidUrlError("a URL whose host is not a name") from None


def _without_dots(path: str) -> str:
    """Returns a path without its `.` and `..`, as servers understand it."""
    if "." not in path:
        return path
    pieces = path.split("/")
    if "." not in pieces and ".." not in pieces:
        return path
    kept: list[str] = []
    for piece in pieces:
        if piece == "..":
            if kept and kept != [""]:
                kept.pop()
        elif piece != ".":
            kept.append(piece)
    return "/".join(kept)


def _encoded(match: re.Match[str]) -> str:
    # A half of a character, which no encoding has, is not a URL.
    return quote(match[0], safe="")
